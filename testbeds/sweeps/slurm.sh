#!/bin/bash
# A sweep as a Slurm job array. Each task runs a part, and a last task merges the reports.
#
#   mkdir -p sweep && sbatch testbeds/sweeps/slurm.sh
#
# Slurm runs a task again if its node fails. If a part is missing at the end, the merge names it. To run part 4 of 16
# again: sbatch --array=4 --export=ALL,PARTS=16 testbeds/sweeps/slurm.sh
#
# `slurm-trial.sh` tests this script on a cluster on one machine.
#
#SBATCH --job-name=xoff-sweep
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --output=sweep/part-%a.log
set -eu

# What is swept. The folder must be one that all nodes see.
LAB=${LAB:-testbeds/sweeps/incast.xoff.yml}
SWEEP=${SWEEP:---seeds 1..=32 --set transports.default.congestion=none,dcqcn,timely,swift}
OUT=${OUT:-sweep}

mkdir -p "$OUT"
if [ -n "${PARTS:-}" ]; then
    # Single parts run again. Their numbers start at 1.
    part=$SLURM_ARRAY_TASK_ID
else
    # The array may be submitted as 0-15 too.
    PARTS=$SLURM_ARRAY_TASK_COUNT
    part=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN + 1))
    queues_merge=yes
fi

# The first task queues the merge, for when all tasks have ended well. The file shows that the merge is queued, if a
# node fails and the task runs again.
queued=$OUT/merge-of-$SLURM_ARRAY_JOB_ID
if [ "$part" -eq 1 ] && [ -n "${queues_merge:-}" ] && [ ! -e "$queued" ]; then
    sbatch --dependency="afterok:$SLURM_ARRAY_JOB_ID" --job-name=xoff-merge --output="$OUT/merge.log" \
        --wrap "xoff lab merge $OUT/part-*.json --report $OUT/sweep.json --csv $OUT/sweep.csv"
    touch "$queued"
fi

# Exit code 1 is a result: a run of the part did not keep what its lab promises. The report is written.
status=0
# shellcheck disable=SC2086 # options are words
xoff lab run "$LAB" --virtual $SWEEP --jobs "$SLURM_CPUS_PER_TASK" \
    --shard "$part/$PARTS" --report "$OUT/part-$part.json" || status=$?
[ "$status" -le 1 ]
