"""The parts that all tasks on Spark share: context, outputs, failures and checks of the input."""
