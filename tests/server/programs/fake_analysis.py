"""The analysis process with the fake engine."""

from stitchcuda.server.engine.process import serve

from tests.server.programs.fake_engine import FakeIndex

if __name__ == "__main__":
    serve(FakeIndex)
