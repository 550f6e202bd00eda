# Code 3 says that a training or an attack diverged. That is a result: the study goes on.
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
        gpu=1,
    params:
        settings=lambda wildcards: PLAN.study.train_slice(wildcards.defence),
        config=CONFIG,
    shell:
        "python -m cemlib train --config {params.config:q} --defence {wildcards.defence:q}"
        " --seed {wildcards.seed} > {log:q} 2>&1 || [ $? -eq 3 ]"


# The attacker's own classifier, undefended and trained apart: it recognises reconstructions.
rule judge:
    input:
        sources=relative(PLAN.train_sources(JUDGE)),
        data=PLAN.layout.prepared,
    output:
        PLAN.layout.judge.files(),
    log:
        LOGS / "judge.log",
    benchmark:
        BENCHMARKS / "judge.tsv"
    threads: PLAN.study.threads
    resources:
        gpu=1,
    params:
        settings=PLAN.study.train_slice(JUDGE),
        config=CONFIG,
        judge=JUDGE,
        seed=JUDGE_SEED,
    shell:
        "python -m cemlib train --config {params.config:q} --defence {params.judge} > {log:q} 2>&1"
        " || [ $? -eq 3 ]"
