# SPDX-License-Identifier: Apache-2.0
"""A test kit for programs that use queues: a clock to move, and disks that forget, fail and kill."""

from entrepot.testing.clock import VirtualClock
from entrepot.testing.failing_disk import FaultyDisk, KillingDisk
from entrepot.testing.faults import Fault, Faults, PlannedFaults
from entrepot.testing.simulated_disk import SimulatedDisk

__all__ = ["Fault", "Faults", "FaultyDisk", "KillingDisk", "PlannedFaults", "SimulatedDisk", "VirtualClock"]
