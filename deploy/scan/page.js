// Collects what a person says of the findings, for unloop scan label --from. Nothing is sent.
const bar = document.getElementById("labels"), link = document.getElementById("download");
const verdicts = new Map();
addEventListener("change", ({ target }) => {
  const label = target.closest("[data-session]");
  if (!label) return;
  const { digest, session } = label.dataset;
  verdicts.set(digest + session, { file_digest: digest, session, verdict: target.value });
  bar.hidden = false;
  document.getElementById("count").textContent = verdicts.size + (verdicts.size === 1 ? " label" : " labels");
  const lines = [...verdicts.values()].map((v) => JSON.stringify(v) + "\n");
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
});
