# Doubly perturbed federated learning (`system: federated`, docs/federated.md).
FEDERATED = planned("federated")
FEDERATED_CONFIG = config_of("federated", FEDERATED)
FEDERATED_LOGS = FEDERATED.layout.root / "logs"
FEDERATED_BENCHMARKS = FEDERATED.layout.root / "benchmarks"


if SYSTEM == "federated":

    onstart:
        FEDERATED.write_config()


localrules:
    federated_track,


rule federated_prepare:
    input:
        sources=relative(FEDERATED.prepare_sources()),
    output:
        FEDERATED.layout.prepared,
        FEDERATED.layout.prepared_facts,
    log:
        FEDERATED_LOGS / "prepare.log",
    benchmark:
        FEDERATED_BENCHMARKS / "prepare.tsv"
    params:
        settings=FEDERATED.study.data_slice(),
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only prepare --config {params.config:q} > {log:q} 2>&1"


# Code 3 says that a training or an attack diverged. That is a result: the study goes on.
rule federated_pseudo:
    input:
        sources=relative(FEDERATED.pseudo_sources()),
        data=FEDERATED.layout.prepared,
    output:
        FEDERATED.pseudo("{seed}").files(),
    log:
        FEDERATED_LOGS / "pseudo/seed{seed}.log",
    benchmark:
        FEDERATED_BENCHMARKS / "pseudo/seed{seed}.tsv"
    wildcard_constraints:
        seed="[0-9]+",
    threads: FEDERATED.study.threads
    resources:
        gpu=1,
    params:
        settings=FEDERATED.study.pseudo_slice(),
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only pseudo --seed {wildcards.seed}"
        " --config {params.config:q} > {log:q} 2>&1 || [ $? -eq 3 ]"


rule federated_train:
    input:
        sources=relative(FEDERATED.train_sources()),
        data=FEDERATED.layout.prepared,
        pseudo=lambda wildcards: FEDERATED.pseudo_inputs(
            wildcards.variant, wildcards.seed
        ),
    output:
        FEDERATED.run("{variant}", "{seed}").files(),
    log:
        FEDERATED_LOGS / "train/{variant}/seed{seed}.log",
    benchmark:
        FEDERATED_BENCHMARKS / "train/{variant}/seed{seed}.tsv"
    wildcard_constraints:
        variant="|".join(FEDERATED.variants()),
        seed="[0-9]+",
    threads: FEDERATED.study.threads
    resources:
        gpu=1,
    params:
        settings=lambda wildcards: FEDERATED.study.train_slice(wildcards.variant),
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only train --variant {wildcards.variant:q}"
        " --seed {wildcards.seed} --config {params.config:q} > {log:q} 2>&1 || [ $? -eq 3 ]"


rule federated_attack:
    input:
        sources=relative(FEDERATED.attack_sources()),
        data=FEDERATED.layout.prepared,
        pseudo=lambda wildcards: FEDERATED.pseudo_inputs(
            wildcards.variant, wildcards.seed
        ),
        run=FEDERATED.run("{variant}", "{seed}").files(),
    output:
        FEDERATED.attack_files("{variant}", "{seed}"),
    log:
        FEDERATED_LOGS / "attack/{variant}/seed{seed}.log",
    benchmark:
        FEDERATED_BENCHMARKS / "attack/{variant}/seed{seed}.tsv"
    wildcard_constraints:
        variant="|".join(FEDERATED.variants()),
        seed="[0-9]+",
    threads: FEDERATED.study.threads
    resources:
        gpu=1,
    params:
        settings=lambda wildcards: FEDERATED.study.attack_slice(wildcards.variant),
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only attack --variant {wildcards.variant:q}"
        " --seed {wildcards.seed} --config {params.config:q} > {log:q} 2>&1 || [ $? -eq 3 ]"


rule federated_report:
    input:
        sources=relative(FEDERATED.report_sources()),
        metrics=[*FEDERATED.metrics(), *FEDERATED.pseudo_metrics()],
        attacks=FEDERATED.attack_metrics(),
    output:
        displayed(FEDERATED.tables(), ".html", "Federated learning"),
        displayed(FEDERATED.figures(), ".png", "Federated learning"),
    log:
        FEDERATED_LOGS / "report.log",
    benchmark:
        FEDERATED_BENCHMARKS / "report.tsv"
    params:
        settings=FEDERATED.study.report_slice(),
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only report --config {params.config:q} > {log:q} 2>&1"


rule federated_track:
    input:
        metrics=[*FEDERATED.metrics(), *FEDERATED.attack_metrics()],
        report=[*FEDERATED.tables(), *FEDERATED.figures()],
    output:
        touch(FEDERATED.layout.tracked()),
    log:
        FEDERATED_LOGS / "track.log",
    benchmark:
        FEDERATED_BENCHMARKS / "track.tsv"
    resources:
        mlflow=1,
    params:
        config=FEDERATED_CONFIG,
    shell:
        "python -m cemlib federated --only track --config {params.config:q} > {log:q} 2>&1"
