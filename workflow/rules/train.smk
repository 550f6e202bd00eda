rule train:
    input:
        sources=lambda wildcards: relative(PLAN.train_sources(wildcards.defence)),
        data=PLAN.layout.prepared,
    output:
        RUN.files(),
    log:
        LOGS / "train/{defence}/seed{seed}.log",
    benchmark:
        BENCHMARKS / "train/{defence}/seed{seed}.tsv"
    threads: PLAN.study.threads
    resources:
        mem_mb=2000,
    params:
        settings=lambda wildcards: PLAN.study.train_slice(wildcards.defence),
        config=CONFIG,
    shell:
        "python -m cemlib train --config {params.config:q} --defence {wildcards.defence:q}"
        " --seed {wildcards.seed} > {log:q} 2>&1"
