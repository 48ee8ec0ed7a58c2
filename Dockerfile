FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      tesseract-ocr-eng tesseract-ocr-spa tesseract-ocr-por tesseract-ocr-pol tesseract-ocr-deu \
      tesseract-ocr-fra tesseract-ocr-osd && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/fairlead
COPY requirements-server.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements-server.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
 && useradd --create-home fairlead && install -d -o fairlead /var/lib/fairlead /var/lib/fairlead-files
USER fairlead
CMD ["fairlead", "serve", "--host", "0.0.0.0"]
