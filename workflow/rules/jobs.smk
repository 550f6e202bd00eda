# Of every study a rule for each kind of job, and the upload.
for EACH in EVERY:

    # Code 3 says that a training or an attack diverged. That is a result: the study goes on.
    for RULE in EACH.rules:

        rule:
            name:
                RULE.name
            input:
                unpack(RULE.inputs),
                sources=RULE.sources,
            output:
                shown(EACH, RULE.outputs),
            log:
                RULE.log,
            benchmark:
                RULE.benchmark
            wildcard_constraints:
                **RULE.constraints,
            threads: RULE.threads
            resources:
                gpu=RULE.gpu,
            params:
                settings=RULE.settings,
                job=RULE.job_name,
                config=EACH.config,
            message:
                "{params.job}" if BRIEF else None
            shell:
                "python -m cemlib run --config {params.config:q} --only {params.job:q}"
                " > {log:q} 2>&1 || [ $? -eq 3 ]"

    # Where Snakemake itself runs, on a cluster too: a node need not reach the store, and SQLite on
    # a shared file system is locked badly.
    rule:
        name:
            f"{EACH.prefix}track"
        input:
            metrics=EACH.results,
            report=EACH.written,
        output:
            touch(EACH.plan.layout.tracked()),
        log:
            EACH.plan.layout.root / "logs/track.log",
        benchmark:
            EACH.plan.layout.root / "benchmarks/track.tsv"
        localrule: True
        resources:
            mlflow=1,
        params:
            config=EACH.config,
        message:
            f"{EACH.prefix}track" if BRIEF else None
        shell:
            "python -m cemlib track --config {params.config:q} > {log:q} 2>&1"
