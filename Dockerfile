# convoy from the wheel in dist/, which ./dev wheel makes; without NVIDIA's libraries but the two that torch loads on a processor.
#   ./dev wheel && docker build -t convoy . && docker run --rm -v "$PWD:/work" convoy train run.toml
FROM python:3.13-slim-trixie
WORKDIR /work
COPY dist/convoy-*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/convoy-*.whl torch==2.15.0 pyarrow==26.0.1 \
 && toolkit=$(python -c 'import re; from importlib.metadata import requires; print(next(m[1] for r in requires("torch") if (m := re.match(r"cuda-toolkit\[.*\]==([0-9.]+)", r))))') \
 && pip install --no-cache-dir "cuda-toolkit[cudart,cupti]==$toolkit" \
 && rm /tmp/convoy-*.whl
ENTRYPOINT ["convoy"]
CMD ["doctor"]
