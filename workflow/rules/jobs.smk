# For every study, a rule for each kind of job and one for the upload.
for EACH in EVERY:

    # Exit code 3 means that a training or an attack diverged, which is a result.
    for RULE in EACH.rules:

        rule:
            name:
                RULE.name
            input:
                unpack(RULE.inputs),
                sources=RULE.sources,
            output:
                [shown(EACH, file) for file in RULE.outputs],
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

    # It runs where Snakemake runs, also on a cluster: nodes may not reach the store, and locks of
    # SQLite are unreliable on shared file systems.
    rule:
        name:
            f"{EACH.prefix}track"
        input:
            metrics=records_below(EACH.plan.layout.root / "runs", EACH.jobs),
            report=EACH.written,
        output:
            touch(EACH.plan.layout.tracked()),
        log:
            EACH.plan.layout.logs / "track.log",
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
