// The peer of the section `events`: graphile-worker drains N trivial jobs in one process. It is found by NODE_PATH.
// Arguments: database URL, number of jobs, jobs at once, `default` or `batched`. Prints one line of JSON.
const { run, runMigrations, Logger } = require("graphile-worker");
const { Pool } = require("pg");

const [url, jobs, atOnce, mode] = process.argv.slice(2);
const [N, C] = [Number(jobs), Number(atOnce)];
const quiet = new Logger(() => () => {});

async function main() {
  const pool = new Pool({ connectionString: url, max: C + 2, options: "-c synchronous_commit=on" });
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  await pool.query("drop schema if exists graphile_worker cascade");
  await runMigrations({ pgPool: pool, logger: quiet });
  const specs = [];
  for (let id = 0; id < N; id++) specs.push({ identifier: "t", payload: { id } });
  await pool.query(
    "select 1 from graphile_worker.add_jobs(array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))",
    [JSON.stringify(specs)],
  );
  await pool.query("analyze graphile_worker._private_jobs");
  const worker = { concurrentJobs: C, maxPoolSize: C + 1, pollInterval: 2000 };
  if (mode === "batched") {
    Object.assign(worker, { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 });
  }
  let done = 0;
  let finish;
  const all = new Promise((resolve) => (finish = resolve));
  const begun = process.hrtime.bigint();
  const runner = await run({
    preset: { worker },
    pgPool: pool,
    logger: quiet,
    noHandleSignals: true,
    taskList: { t: () => { if (++done === N) finish(); } },
  });
  await all;
  let left = N;
  while (left > 0) {
    left = (await pool.query("select count(*)::int n from graphile_worker._private_jobs")).rows[0].n;
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const took = Number(process.hrtime.bigint() - begun) / 1e9;
  console.log(JSON.stringify({ per_second: N / took }));
  await runner.stop();
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
