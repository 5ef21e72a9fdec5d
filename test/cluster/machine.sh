# Process 1 of a machine that is made of namespaces: mounts, network, processes, host name, IPC. What it makes ends with it.
#   machine.sh FOLDER NAME ADDRESS
set -eu
folder=$1 name=$2 address=$3
mount --make-rprivate /
# The kubelet, containerd and the CNI plug-ins write to these whatever their settings say.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p "$folder/lib" "$folder/etc"
mount -t tmpfs tmpfs "$folder/lib"
mkdir -p "$folder/lib/upper" "$folder/lib/work"
mount -t overlay -o "lowerdir=/var/lib,upperdir=$folder/lib/upper,workdir=$folder/lib/work" lib /var/lib
# The kubelet sets these of the kernel; the machine's own stay as they are.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=$folder/etc/$(echo "${setting%%=*}" | tr / _)
  echo "${setting##*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%%=*}"
done
mount --make-rshared /
hostname "$name"
ip link set lo up
# A bridge is the interface of the node, since not every kernel has dummy ones. A default route is needed, and leads nowhere.
ip link add node0 type bridge
ip address add "$address/24" dev node0
ip link set node0 up
ip link add node0v type veth peer name node0p
ip link set node0p master node0
ip link set node0p up
ip link set node0v up
ip route add default via "${address%.*}.254" dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
echo "the machine is up"
# Takes the exit of every process that lost its parent.
sleep infinity &
wait
