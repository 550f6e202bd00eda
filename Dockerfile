# The environment of every job, from the lock that `make results` installs, on the CPU or a CUDA card:
#   docker build --tag cemlib .
#   docker run --env MLFLOW_TRACKING_URI=sqlite:////study/results/mlflow.db \
#     --volume "$PWD/results:/study/results" cemlib snakemake --cores 2
# For Snakemake's own use (--software-deployment-method apptainer), as the Snakefile names it:
#   apptainer build cemlib.sif docker-daemon:cemlib:latest
FROM python:3.11-slim

WORKDIR /study
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .
CMD ["snakemake", "--cores", "1"]
