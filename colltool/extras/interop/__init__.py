"""Other programs' formats: Chakra, InfraGraph, ASTRA-sim, GOAL of LogGOPSim, and a run in SimGrid."""
