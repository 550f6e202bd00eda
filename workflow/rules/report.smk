# What stands first in the page of `snakemake --report`.
report: "../report/study.rst"


rule tables:
    input:
        sources=relative(PLAN.report_sources()),
        metrics=PLAN.metrics(),
    output:
        in_report(PLAN.tables(), ".html", table_entry),
    log:
        LOGS / "tables.log",
    benchmark:
        BENCHMARKS / "tables.tsv"
    params:
        settings=PLAN.study.report_slice(),
        config=CONFIG,
    shell:
        "python -m cemlib report --only tables --config {params.config:q} > {log:q} 2>&1"


rule figures:
    input:
        sources=relative(PLAN.report_sources()),
        metrics=PLAN.metrics(),
        strips=strips_in_report(),
    output:
        in_report(PLAN.figures(), ".png", figure_entry),
    log:
        LOGS / "figures.log",
    benchmark:
        BENCHMARKS / "figures.tsv"
    params:
        settings=PLAN.study.report_slice(),
        config=CONFIG,
    shell:
        "python -m cemlib report --only figures --config {params.config:q} > {log:q} 2>&1"


rule cluster_course:
    input:
        sources=relative(PLAN.report_sources()),
        metrics=[run.metrics for run in PLAN.runs()],
    output:
        in_report(PLAN.cluster_course(), ".png", figure_entry),
    log:
        LOGS / "cluster_course.log",
    benchmark:
        BENCHMARKS / "cluster_course.tsv"
    params:
        settings=PLAN.study.report_slice(),
        config=CONFIG,
    shell:
        "python -m cemlib report --only cluster_course --config {params.config:q}"
        " > {log:q} 2>&1"


if PLAN.surrogate_courses():

    rule surrogates:
        input:
            sources=relative(PLAN.report_sources()),
            metrics=[run.metrics for run in PLAN.runs()],
        output:
            in_report(PLAN.surrogate_courses(), ".png", figure_entry),
        log:
            LOGS / "surrogates.log",
        benchmark:
            BENCHMARKS / "surrogates.tsv"
        params:
            settings=PLAN.study.report_slice(),
            config=CONFIG,
        shell:
            "python -m cemlib report --only surrogates --config {params.config:q} > {log:q} 2>&1"


rule page:
    input:
        sources=relative(PLAN.page_sources()),
        metrics=PLAN.metrics(),
        shown=PLAN.page_inputs(),
    output:
        PLAN.page(),
    log:
        LOGS / "page.log",
    benchmark:
        BENCHMARKS / "page.tsv"
    params:
        settings=PLAN.study.model_dump(mode="json", by_alias=True),
        config=CONFIG,
    shell:
        "python -m cemlib report --only page --config {params.config:q} > {log:q} 2>&1"


# Tables of one defence, for `snakemake <defence>`.
rule report_one:
    input:
        sources=relative(PLAN.report_sources()),
        metrics=lambda wildcards: PLAN.metrics(wildcards.defence),
    output:
        PLAN.tables("{defence}"),
    log:
        LOGS / "tables/{defence}.log",
    benchmark:
        BENCHMARKS / "tables/{defence}.tsv"
    params:
        config=CONFIG,
    shell:
        "python -m cemlib report --only tables --config {params.config:q}"
        " --defence {wildcards.defence:q} > {log:q} 2>&1"
