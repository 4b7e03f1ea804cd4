#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The machine's first program: all that changes from run to run is on its second disk.
cat >/sbin/proving-ground <<-'EOF'
	#!/bin/sh
	mount -o noatime /dev/vdb /mnt && exec /mnt/repo/tests/engines/inside
EOF
chmod 755 /sbin/proving-ground
