from tests.sinks.sql.world import *
def test_smoke(world):
    sink = world.table("id int NOT NULL PRIMARY KEY, city text").new(mode="upsert", key=["id"])
    h = staged(sink, 1)
    print(h, world.tables(), sink.staged())
    assert sink.release([h], 1) == {"rows": 2}
    assert sink.release([h], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)
    assert world.staged() == [] and world.staging_tables() == 0
    assert sink.collect_garbage([], []) == []
