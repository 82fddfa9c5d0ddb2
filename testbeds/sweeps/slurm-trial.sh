#!/bin/bash
# Runs slurm.sh on a Slurm cluster of three nodes on this machine. One node fails during the sweep, and Slurm repeats
# its task. The merged sweep must equal the sweep of a single machine byte for byte. Then a part is lost: the merge
# must name it, and succeed after the part has run again.
#
#   apt-get install -y slurm-wlm munge
#   testbeds/sweeps/slurm-trial.sh [PATH OF xoff]
#
# Needs root, because Slurm runs as root here. All files and processes of the cluster are removed at the end. Exit codes:
# 0 all conditions hold, 1 a condition does not hold, 3 Slurm is missing or does not start.
set -euo pipefail
cd "$(dirname "$0")/../.."

xoff=$(realpath "${1:-target/release/xoff}")
lab=testbeds/sweeps/incast.xoff.yml
sweep="--seeds 1..=6 --set transports.default.congestion=none,dcqcn"
parts=6

environment() { echo "slurm-trial: $*" >&2; exit 3; }
failed() { echo "FAIL: $*"; exit 1; }

[ "$(id -u)" -eq 0 ] || environment "root is needed to start slurmd"
[ -x "$xoff" ] || environment "$xoff is not a program: cargo build --release"
for program in munged slurmctld slurmd sbatch squeue scontrol; do
    command -v "$program" >/dev/null || environment "$program is missing: apt-get install -y slurm-wlm munge"
done

work=$(mktemp -d /tmp/xoff-slurm.XXXXXX)
export SLURM_CONF=$work/slurm.conf
mkdir -p "$work"/{bin,state,spool,log,out}
# `slurm.sh` starts `xoff` by its name. The first task of node2 waits until the node fails.
cat >"$work/bin/xoff" <<PROGRAM
#!/bin/bash
if [ "\${SLURMD_NODENAME:-}" = node2 ] && [ ! -e "$work/has-failed" ]; then
    echo "\$SLURM_ARRAY_JOB_ID"_"\$SLURM_ARRAY_TASK_ID" >"$work/waiting-task"
    exec sleep 3600
fi
exec "$xoff" "\$@"
PROGRAM
chmod +x "$work/bin/xoff"
export PATH=$work/bin:$PATH

stop_process() { # the process of a pid file, if it runs
    [ -s "$1" ] && kill -9 "$(cat "$1")" 2>/dev/null || true
}
clean_up() {
    scancel --quiet --full --user=root 2>/dev/null || true
    for file in "$work"/*.pid; do stop_process "$file"; done
    # Tasks and their monitors carry the folder in their command line or in their environment.
    for pid in /proc/[0-9]*; do
        if [ "${pid#/proc/}" != $$ ] && grep -qa "SLURM_CONF=$work/" "$pid/environ" 2>/dev/null; then
            kill -9 "${pid#/proc/}" 2>/dev/null || true
        fi
    done
    rm -rf "$work"
}
trap clean_up EXIT

cat >"$SLURM_CONF" <<CONF
ClusterName=xoff
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
ProctrackType=proctrack/pgid
ReturnToService=2
SlurmctldPidFile=$work/slurmctld.pid
SlurmctldPort=16817
SlurmdPidFile=$work/slurmd.%n.pid
SlurmdSpoolDir=$work/spool/%n
StateSaveLocation=$work/state
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/%n.log
SwitchType=switch/none
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdTimeout=10
KillWait=2
SlurmdParameters=config_overrides
NodeName=node[1-3] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=1 RealMemory=4096
PartitionName=main Nodes=ALL Default=YES State=UP
CONF

head -c 1024 /dev/urandom >"$work/munge.key"
chmod 600 "$work/munge.key"
munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/log/munged.log" --seed-file="$work/munge.seed" 2>/dev/null
slurmctld -c
start_node() { slurmd -c -N "$1"; }
for node in node1 node2 node3; do start_node "$node"; done

wait_for() { # what, seconds, command
    local what=$1 left=$2
    shift 2
    until "$@"; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            { squeue; sinfo --Node --long; tail -n 20 "$work/log/slurmctld.log" "$work"/out/*.log; } >&2 || true
            failed "no $what in time"
        fi
        sleep 1
    done
}
nodes_are_idle() { [ "$(sinfo --noheader --Node --states=idle --format=%N | wc -l)" -eq 3 ]; }
wait_for "idle nodes" 30 nodes_are_idle || environment "the nodes do not start"

# The same sweep on one machine.
# shellcheck disable=SC2086 # options are words
"$xoff" lab run "$lab" --virtual $sweep --report "$work/single.json" --csv "$work/single.csv" >/dev/null

export LAB=$lab SWEEP=$sweep OUT=$work/out
array=$(sbatch --parsable --array="1-$parts" --cpus-per-task=1 --mem=100M --output="$work/out/part-%a.log" \
    testbeds/sweeps/slurm.sh)

# A node fails while it runs a task: slurmd, the monitor of the task and the task end at once.
wait_for "task at node2" 60 test -s "$work/waiting-task"
lost_task=$(cat "$work/waiting-task")
touch "$work/has-failed"
stop_process "$work/slurmd.node2.pid"
lost_job=$(scontrol show job "$lost_task" | sed -n 's/^JobId=\([0-9]*\) .*/\1/p')
pkill -9 -f "^slurmstepd: \[$lost_job\." || true
for pid in /proc/[0-9]*; do
    if tr '\0' '\n' 2>/dev/null <"$pid/environ" | grep -q "^SLURMD_NODENAME=node2$"; then
        kill -9 "${pid#/proc/}" 2>/dev/null || true
    fi
done 2>/dev/null
echo "node2 failed during task $lost_task"
is_requeued() { scontrol show job "$lost_task" | grep -q "Restarts=[1-9]"; }
wait_for "repeated task after the failure of its node" 60 is_requeued
start_node node2

is_done() { [ -z "$(squeue --noheader --format=%i)" ]; }
wait_for "end of the sweep" 300 is_done
[ -e "$work/out/sweep.json" ] || { cat "$work"/out/*.log; failed "the sweep was not merged"; }
cmp "$work/single.json" "$work/out/sweep.json" || failed "the report differs from that of a single machine"
cmp "$work/single.csv" "$work/out/sweep.csv" || failed "the table differs from that of a single machine"
echo "the merged sweep equals the sweep of a single machine"

# A part is lost.
rm "$work/out/part-4.json"
status=0
message=$("$xoff" lab merge "$work"/out/part-*.json --report "$work/again.json" 2>&1 >/dev/null) || status=$?
[ "$status" -ne 0 ] || failed "a merge without part 4 succeeds"
grep -q "4/$parts" <<<"$message" || failed "the merge does not name the lost part: $message"
sbatch --wait --array=4 --cpus-per-task=1 --mem=100M --output="$work/out/part-%a.log" --export=ALL,PARTS=$parts \
    testbeds/sweeps/slurm.sh >/dev/null
"$xoff" lab merge "$work"/out/part-*.json --report "$work/again.json" >/dev/null
cmp "$work/single.json" "$work/again.json" || failed "the report differs after the lost part has run again"
echo "the lost part was named, and the sweep is complete after it has run again"
echo PASS
