# Targets of split inference alone. `snakemake gated` makes everything for one defence: its runs,
# attacks, tables and MLflow runs.
DEFENCES = list(STUDY.plan.study.defences)
ONE = JobRule("report_one", [tables_of_one(STUDY.plan, name) for name in DEFENCES])


# The first page of `snakemake --report`.
report: "../report/study.rst"


rule report_one:
    input:
        unpack(ONE.inputs),
        sources=ONE.sources,
    output:
        ONE.outputs,
    log:
        ONE.log,
    benchmark:
        ONE.benchmark
    wildcard_constraints:
        **ONE.constraints,
    params:
        config=STUDY.config,
    message:
        "tables/{wildcards.defence}" if BRIEF else None
    shell:
        "python -m cemlib report --config {params.config:q}"
        " --defence {wildcards.defence:q} > {log:q} 2>&1"


rule track_one:
    input:
        unpack(ONE.inputs),
    output:
        touch(STUDY.plan.layout.tracked("{defence}")),
    log:
        STUDY.plan.layout.logs / "track/{defence}.log",
    benchmark:
        STUDY.plan.layout.root / "benchmarks/track/{defence}.tsv"
    wildcard_constraints:
        **ONE.constraints,
    localrule: True
    resources:
        mlflow=1,
    params:
        config=STUDY.config,
    message:
        "track/{wildcards.defence}" if BRIEF else None
    shell:
        "python -m cemlib track --config {params.config:q} --defence {wildcards.defence:q}"
        " > {log:q} 2>&1"


for DEFENCE in DEFENCES:

    rule:
        name:
            DEFENCE
        input:
            ONE.job({"defence": DEFENCE}).outputs,
            STUDY.plan.layout.tracked(DEFENCE),
        message:
            DEFENCE if BRIEF else None
