# Collaborative labelling (`system: pctc`, docs/labelling.md).
PCTC = planned("pctc")
PCTC_CONFIG = config_of("pctc", PCTC)
PCTC_LOGS, PCTC_BENCHMARKS = PCTC.layout.root / "logs", PCTC.layout.root / "benchmarks"


if SYSTEM == "pctc":

    onstart:
        PCTC.write_config()


localrules:
    pctc_track,


rule pctc_prepare:
    input:
        sources=relative(PCTC.prepare_sources()),
    output:
        PCTC.layout.prepared,
        PCTC.layout.prepared_facts,
    log:
        PCTC_LOGS / "prepare.log",
    benchmark:
        PCTC_BENCHMARKS / "prepare.tsv"
    params:
        settings=PCTC.study.data_slice(),
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only prepare --config {params.config:q} > {log:q} 2>&1"


# Code 3 says that a training diverged. That is a result: the study goes on.
rule pctc_repeat:
    input:
        sources=relative(PCTC.repeat_sources()),
        data=PCTC.layout.prepared,
    output:
        PCTC.repeat_files("{repeat}"),
    log:
        PCTC_LOGS / "repeat/{repeat}.log",
    benchmark:
        PCTC_BENCHMARKS / "repeat/{repeat}.tsv"
    wildcard_constraints:
        repeat="[0-9]+",
    threads: PCTC.study.threads
    params:
        settings=PCTC.study.repeat_slice(),
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only repeat --repeat {wildcards.repeat}"
        " --config {params.config:q} > {log:q} 2>&1 || [ $? -eq 3 ]"


# In CPU seconds: what runs beside it does not count.
rule pctc_cost:
    input:
        sources=relative(PCTC.cost_sources()),
    output:
        PCTC.cost,
    log:
        PCTC_LOGS / "cost.log",
    benchmark:
        PCTC_BENCHMARKS / "cost.tsv"
    threads: 1
    params:
        settings=PCTC.study.cost_slice(),
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only cost --config {params.config:q} > {log:q} 2>&1"


rule pctc_tables:
    input:
        sources=relative(PCTC.report_sources()),
        metrics=PCTC.metrics(),
        cost=PCTC.cost,
    output:
        displayed(PCTC.tables(), ".html", "Collaborative labelling"),
    log:
        PCTC_LOGS / "tables.log",
    benchmark:
        PCTC_BENCHMARKS / "tables.tsv"
    params:
        settings=PCTC.study.report_slice(),
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only tables --config {params.config:q} > {log:q} 2>&1"


rule pctc_figures:
    input:
        sources=relative(PCTC.report_sources()),
        metrics=PCTC.metrics(),
        cost=PCTC.cost,
    output:
        displayed(PCTC.figures(), ".png", "Collaborative labelling"),
    log:
        PCTC_LOGS / "figures.log",
    benchmark:
        PCTC_BENCHMARKS / "figures.tsv"
    params:
        settings=PCTC.study.report_slice(),
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only figures --config {params.config:q} > {log:q} 2>&1"


rule pctc_track:
    input:
        metrics=PCTC.metrics(),
        report=[*PCTC.tables(), *PCTC.figures()],
    output:
        touch(PCTC.layout.tracked()),
    log:
        PCTC_LOGS / "track.log",
    benchmark:
        PCTC_BENCHMARKS / "track.tsv"
    resources:
        mlflow=1,
    params:
        config=PCTC_CONFIG,
    shell:
        "python -m cemlib pctc --only track --config {params.config:q} > {log:q} 2>&1"
