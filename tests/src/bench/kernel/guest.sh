# Runs inside the test kernel: a card in switchdev mode, a bridge over a bond, a VLAN, an interface for a VRF, and the
# agents of three nodes. $1: how often each thing changes.
set -eu

ip link set lo up
for name in p0 up0 slave0; do ip link add "$name" type dummy; ip link set "$name" up; done

echo "1 1" >/sys/bus/netdevsim/new_device
echo 2 >/sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev
representor=
for path in /sys/class/net/*; do
  [[ $(cat "$path/phys_port_name" 2>/dev/null) != pf0vf1 ]] || representor=${path##*/}
done
[[ -n $representor ]]
ip link set "$representor" up

ip link add bond9 type bond mode active-backup
ip link set slave0 down
ip link set slave0 master bond9
ip link set bond9 up

ip addr add 198.51.100.2/24 dev up0
ip link add link up0 name up0.100 type vlan id 100
ip link set up0.100 up
ip addr add 198.51.101.2/24 dev up0.100
ip link add blue type vrf table 1007
ip link set blue up

mkdir -p /run/openvswitch /etc/openvswitch
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --detach --no-chdir --pidfile
ovs-vsctl --no-wait init
ovs-vswitchd --detach --no-chdir --pidfile
ovs-vsctl add-br br-tenant -- add-port br-tenant p0 -- add-port br-tenant "$representor" \
  -- add-br br-bond -- add-port br-bond bond9
for bridge in br-tenant br-bond; do ip link set "$bridge" up; done
ip addr add 203.0.113.2/25 dev br-bond

features="--enable-multi-network --enable-network-segmentation --enable-uplink"
dpu-agent --init-node card --ovnkube-node-mode dpu $features --metrics-bind-address 127.0.0.1:9411 &
host-agent --init-node host --ovnkube-node-mode dpu-host $features --metrics-bind-address 127.0.0.1:9412 &
node-agent --init-node regular $features --metrics-bind-address 127.0.0.1:9413 &

causeway-bench in-kernel --changes "$1"
kill $(jobs -p)
