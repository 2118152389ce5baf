# Runs inside the test kernel: a card in switchdev mode, bridges over a bond and over a VLAN, an interface that moves
# into a VRF, and the agents of three nodes. Waits for files that the test outside makes.
set -eu
step() { while [[ ! -e /causeway/out/step-$1 ]]; do sleep 0.05; done; }

ip link set lo up
for name in p0 up0 slave0 slave1 slave2 trunk0; do ip link add "$name" type dummy; ip link set "$name" up; done

# The card.
echo "1 1" >/sys/bus/netdevsim/new_device
echo 2 >/sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev
representor=
for path in /sys/class/net/*; do
  [[ $(cat "$path/phys_port_name" 2>/dev/null) != pf0vf1 ]] || representor=${path##*/}
done
[[ -n $representor ]]
ip link set "$representor" up

# A bond, a VLAN, and a VLAN of a bond of the kernel as ways out.
ip link add bond9 type bond mode active-backup
ip link set slave0 down
ip link set slave0 master bond9
ip link set bond9 up
ip link add bond8 type bond mode active-backup
for slave in slave1 slave2; do ip link set $slave down; ip link set $slave master bond8; done
ip link set bond8 up
ip link add link bond8 name bond8.2726 type vlan id 2726
ip link set bond8.2726 up
ip link add link trunk0 name trunk0.200 type vlan id 200
ip link set trunk0.200 up

# The host's interfaces.
ip addr add 198.51.100.2/24 dev up0
ip route add default via 198.51.100.1 dev up0 metric 50000
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
  -- add-br br-bond -- add-port br-bond bond9 -- add-br br-vlan -- add-port br-vlan trunk0.200 \
  -- add-br br-bond-vlan -- add-port br-bond-vlan bond8.2726
for bridge in br-tenant br-bond br-vlan br-bond-vlan; do ip link set "$bridge" up; done
ip addr add 203.0.113.2/25 dev br-bond
ip addr add 203.0.113.130/25 dev br-vlan
ip addr add 192.0.2.2/24 dev br-bond-vlan

features="--enable-multi-network --enable-network-segmentation --enable-uplink"
dpu-agent --init-node card --ovnkube-node-mode dpu $features &
host-agent --init-node host --ovnkube-node-mode dpu-host $features &
node-agent --init-node regular $features &

step enslave
ip link set up0 master blue
step vrf-default
ip route add default via 198.51.100.254 dev up0 table 1007
step end
kill $(jobs -p)
