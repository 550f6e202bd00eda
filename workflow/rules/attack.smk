rule attack:
    input:
        sources=lambda wildcards: relative(
            PLAN.attack_sources(wildcards.defence, wildcards.attack)
        ),
        data=PLAN.layout.prepared,
        attacked=lambda wildcards: PLAN.attacked_files(
            PLAN.layout.run(wildcards.defence, wildcards.seed), wildcards.attack
        ),
    output:
        PLAN.attack_files(RUN, ["{attack}"]),
    log:
        LOGS / "attack/{defence}/seed{seed}/{attack}.log",
    benchmark:
        BENCHMARKS / "attack/{defence}/seed{seed}/{attack}.tsv"
    threads: PLAN.study.threads
    resources:
        gpu=1,
    params:
        settings=lambda wildcards: PLAN.study.attack_slice(
            wildcards.defence, wildcards.attack
        ),
        config=CONFIG,
    shell:
        "python -m cemlib attack --config {params.config:q} --defence {wildcards.defence:q}"
        " --seed {wildcards.seed} --attack {wildcards.attack:q} > {log:q} 2>&1"
        " || [ $? -eq 3 ]"


# Attacks without training take less time than starting a process: one job does them all.
if PLAN.study.closed_form_attacks():

    rule attack_closed_form:
        input:
            sources=lambda wildcards: relative(
                PLAN.closed_form_sources(wildcards.defence)
            ),
            data=PLAN.layout.prepared,
            attacked=[*RUN.files(), *PLAN.layout.judge.files()],
        output:
            PLAN.attack_files(RUN, PLAN.study.closed_form_attacks()),
        log:
            LOGS / "attack/{defence}/seed{seed}/closed_form.log",
        benchmark:
            BENCHMARKS / "attack/{defence}/seed{seed}/closed_form.tsv"
        threads: PLAN.study.threads
        resources:
            gpu=1,
        params:
            settings=closed_form_settings,
            attacks=[
                f"--attack={attack}" for attack in PLAN.study.closed_form_attacks()
            ],
            config=CONFIG,
        shell:
            "python -m cemlib attack --config {params.config:q}"
            " --defence {wildcards.defence:q} --seed {wildcards.seed}"
            " {params.attacks:q} > {log:q} 2>&1 || [ $? -eq 3 ]"
