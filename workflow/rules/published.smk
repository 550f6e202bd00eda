# `snakemake published` makes every table under results/published again, and says what differs.
for EACH in PUBLISHED:

    rule:
        name:
            f"published_{EACH.plan.study.experiment}_compare"
        input:
            EACH.written,
            tables=sorted(
                Path("results/published", EACH.plan.study.experiment).glob("*.csv")
            ),
        output:
            told(EACH),
        log:
            EACH.plan.layout.logs / "published.log",
        benchmark:
            EACH.plan.layout.root / "benchmarks/published.tsv"
        params:
            config=EACH.config,
        shell:
            "python -m cemlib publish --compare --config {params.config:q}"
            " > {output:q} 2> {log:q}"


rule published:
    input:
        [told(study) for study in PUBLISHED],
