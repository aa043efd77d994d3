# The dashboard and its worker in one container. Build from the checkout, with no network at run time:
#   docker build -t bandgap .
#   docker run -p 127.0.0.1:8501:8501 -v bandgap-home:/home/bandgap/data bandgap
# It prints the address with its token; `-e BANDGAP_APP_TOKEN=...` sets another, which stays from start to start. For other
# machines publish another port behind a proxy, which has to encrypt, and add `--allowed-host NAME` to the line.
FROM python:3.11-slim AS build
WORKDIR /checkout
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY bandgap ./bandgap
COPY app ./app
COPY data ./data
COPY docs ./docs
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim

# Torch's CPU build is a tenth of the default build: pass --build-arg TORCH_INDEX=URL, the index that pytorch.org names.
ARG TORCH_INDEX=

RUN useradd --create-home --uid 1000 bandgap \
    && mkdir /home/bandgap/data \
    && chown bandgap:bandgap /home/bandgap/data

WORKDIR /home/bandgap
COPY constraints.txt .
COPY --from=build /dist .
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt bandgap-*.whl

ENV BANDGAP_HOME=/home/bandgap/data \
    PYTHONUNBUFFERED=1
USER bandgap
VOLUME /home/bandgap/data
EXPOSE 8501

# Every unknown path of Streamlit answers 200, so the body is compared.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import sys, urllib.request as u; sys.exit(u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4).read().strip() != b'ok')"]

ENTRYPOINT ["bandgap", "app", "--host", "0.0.0.0", "--new-token"]
