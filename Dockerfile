# The first stage makes an environment; the second has that and what it needs to run.
FROM python:3.13-slim AS build
WORKDIR /build
RUN python -m venv --without-pip /opt/fairlead
COPY requirements-server.txt ./
RUN pip --python /opt/fairlead/bin/python install --no-cache-dir --require-hashes -r requirements-server.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip --python /opt/fairlead/bin/python install --no-cache-dir --no-index --no-deps --no-build-isolation . \
 && pip --python /opt/fairlead/bin/python uninstall --yes setuptools

FROM python:3.13-slim
# Debian keeps one version of a package, and replaces it by security updates.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
      tesseract-ocr-eng tesseract-ocr-spa tesseract-ocr-por tesseract-ocr-pol tesseract-ocr-deu \
      tesseract-ocr-fra tesseract-ocr-osd && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 8321 --user-group --no-create-home fairlead \
 && install -d -o fairlead -g fairlead -m 700 /var/lib/fairlead /var/lib/fairlead-files
COPY --from=build /opt/fairlead /opt/fairlead
ENV PATH=/opt/fairlead/bin:$PATH FAIRLEAD_DATA=/var/lib/fairlead
USER 8321
WORKDIR /var/lib/fairlead
VOLUME ["/var/lib/fairlead"]
EXPOSE 8321
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8321/readyz', timeout=9)"]
CMD ["fairlead", "serve", "--host", "0.0.0.0"]
