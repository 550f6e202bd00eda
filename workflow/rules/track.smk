# Where Snakemake itself runs, on a cluster too: a node need not reach the store, and SQLite on a
# shared file system is locked badly.
localrules:
    track,
    track_one,


rule track:
    input:
        metrics=PLAN.metrics(),
        report=[*PLAN.tables(), *PLAN.all_figures(), *PLAN.page()],
    output:
        touch(PLAN.layout.tracked()),
    log:
        LOGS / "track.log",
    benchmark:
        BENCHMARKS / "track.tsv"
    resources:
        mlflow=1,
    params:
        config=CONFIG,
    shell:
        "python -m cemlib track --config {params.config:q} > {log:q} 2>&1"


rule track_one:
    input:
        metrics=lambda wildcards: PLAN.metrics(wildcards.defence),
    output:
        touch(PLAN.layout.tracked("{defence}")),
    log:
        LOGS / "track/{defence}.log",
    benchmark:
        BENCHMARKS / "track/{defence}.tsv"
    resources:
        mlflow=1,
    params:
        config=CONFIG,
    shell:
        "python -m cemlib track --config {params.config:q} --defence {wildcards.defence:q}"
        " > {log:q} 2>&1"
