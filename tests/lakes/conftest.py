from tests.support.spark_driver import spark

__all__ = ["spark"]
