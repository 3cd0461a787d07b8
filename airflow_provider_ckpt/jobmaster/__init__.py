"""The JobMaster: the loop that carries out the coordinator's effects for one job."""
