rule prepare:
    input:
        sources=relative(PLAN.prepare_sources()),
    output:
        PLAN.layout.prepared,
        PLAN.layout.prepared_facts,
    log:
        LOGS / "prepare.log",
    benchmark:
        BENCHMARKS / "prepare.tsv"
    params:
        settings=PLAN.study.data_slice(),
        config=CONFIG,
    shell:
        "python -m cemlib prepare --config {params.config:q} > {log:q} 2>&1"
