#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains under Slurm for longer than one job may last: shortly before the time is over Slurm signals
# the ranks, which save and end with exit code 75, and the job is put into the queue again. It also
# goes on after a node was lost or the job was preempted.
#
#   sbatch examples/slurm.sh --data images:/data --model resnet50
#
# What stands after the script are flags of `daso train`. DASO names the program, RUN the folder of
# the run, on a disk that all nodes share. Flags of sbatch win over the lines below.
#SBATCH --job-name=daso
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

# Slurm starts a copy of this script, so that the folder of the submission is what counts.
daso=${DASO:-build/release/bin/daso}
run=${RUN:-runs/slurm-$SLURM_JOB_ID}
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

# --resume begins a run that is not there yet. Since Slurm 22.05 srun has to be told of the cores.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" "$daso" train "$@" --out "$run" --resume
code=$?

# 75: stopped, can go on. All else is an end, good or bad.
if [[ $code == 75 ]]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
