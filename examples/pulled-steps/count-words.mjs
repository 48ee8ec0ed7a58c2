// A pulled step in Node, without packages: counts the words of each document that waits for "pull:words".
// Needs FAIRLEAD_URL and FAIRLEAD_KEY, a worker's key: fairlead keys add --worker words
const { FAIRLEAD_URL, FAIRLEAD_KEY } = process.env;

async function request(path, body) {
  const headers = { Authorization: `Bearer ${FAIRLEAD_KEY}` };
  let options = { headers };
  if (body instanceof FormData) options = { method: "POST", headers, body };
  else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options = { method: "POST", headers, body: JSON.stringify(body) };
  }
  const response = await fetch(FAIRLEAD_URL + path, options);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

async function countWords(job) {
  const text = await (await request(job.text)).text();
  const words = text.split(/\s+/).filter(Boolean).length;
  if (words === 0) {
    return request(`/v1/jobs/${job.token}/refuse`, { code: "no-words", detail: "The document has no words." });
  }
  const form = new FormData();
  form.append("data", JSON.stringify({ words }));
  form.append("file", new Blob([text]), "text.txt");
  return request(`/v1/jobs/${job.token}/finish`, form);
}

async function work(job) {
  const renewing = setInterval(
    () => request(`/v1/jobs/${job.token}/renew`, { done: 0, total: 1 }).catch(console.error),
    (job.lease / 3) * 1000,
  );
  try {
    await countWords(job);
  } catch (error) {
    await request(`/v1/jobs/${job.token}/retry`, { error: String(error) });
  } finally {
    clearInterval(renewing);
  }
}

// Ends when nothing waits; a service would ask for ever.
for (;;) {
  const answer = await request("/v1/jobs/claim", { steps: ["words"], max: 4, wait: 1 });
  const { jobs } = await answer.json();
  if (jobs.length === 0) break;
  await Promise.all(jobs.map(work));
}
