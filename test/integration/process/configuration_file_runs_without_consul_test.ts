import test from "node:test";
import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runPostern } from "../../kit/process/postern.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { EchoClient, expectRefused, waitForEcho, waitForRefusal } from "../../kit/wire/echo.ts";
import { freePort } from "../../kit/process/ports.ts";
import { eventually } from "../../kit/process/process.ts";

const HELLO = new TextEncoder().encode("hello");

test("a file carries both ways, takes a good change on SIGHUP and refuses a bad one", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await waitForEcho(mesh.upstream);
  const open = await EchoClient.open(mesh.upstream);
  await open.exchange(HELLO);
  const good = JSON.parse(await readFile(file, "utf8"));
  const write = (config: unknown) => writeFile(file, JSON.stringify(config));

  // Another port: the old connection stays open.
  const moved = { host: mesh.upstream.host, port: await freePort(mesh.upstream.host) };
  good.upstreams[0].bind = `${moved.host}:${moved.port}`;
  await write(good);
  web.kill("SIGHUP");
  await waitForEcho(moved);
  await waitForRefusal(mesh.upstream);
  await open.exchange(HELLO);
  await web.process.waitFor(/\[INFO\] +files reloaded\n/, { timeoutMs: 20_000 });

  // A mistake is logged, and nothing changes.
  await write({ ...good, upstreams: [{ ...good.upstreams[0], port: 1 }], intentions: [] });
  web.kill("SIGHUP");
  const [line] = await web.process.waitFor(/\[WARN\] +configuration refused[^\n]*/, {
    timeoutMs: 20_000,
  });
  assert.match(line, /upstreams\[0\]\.port/);
  await waitForEcho(moved);
  await open.exchange(HELLO);
  assert.equal((await web.admin("/ready")).status, 200);
  assert.match((await web.admin("/config_dump")).body, /upstreams\[0\]\.port/);

  // The rule goes: the connection, too.
  await write({ ...good, intentions: [{ source: "web", action: "deny" }] });
  web.kill("SIGHUP");
  await open.over;
  open.destroy();
  await expectRefused(moved);
  await write(good);
  web.kill("SIGHUP");
  await waitForEcho(moved);
  await eventually("both good ones are said, too", () => {
    return web.output.match(/files reloaded/g)?.length === 3;
  });
  assert.equal(web.output.match(/configuration refused/g)?.length, 1);
});

test("check reports the faults of a file and starts nothing", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  await using good = runPostern(["check", file]);
  good.expectEnd();
  assert.equal((await good.process.waitExit({ timeoutMs: 30_000 })).code, 0);
  assert.match(
    good.output,
    /web\.json is valid: service web, 1 upstream, 1 intention, certificate until \d{4}-/,
  );
  assert.equal(await mesh.readyStatus(), 0);

  await writeFile(file, (await readFile(file, "utf8")).replace('"allow"', '"alow"'));
  await using bad = runPostern(["check", "-config", file]);
  bad.expectEnd();
  assert.equal((await bad.process.waitExit({ timeoutMs: 30_000 })).code, 2);
  assert.match(bad.output, /line 1, column \d+: intentions\[0\]\.action must be "allow" or "deny"/);
});

test("check reports that flags alone suffice and uses no agent", async () => {
  const address = ["-http-addr", "127.0.0.1:1", "-ca-file", "/none.pem"];
  await using checked = runPostern(["check", "-service", "web", "-upstream", "db:1", ...address]);
  checked.expectEnd();
  assert.equal((await checked.process.waitExit({ timeoutMs: 30_000 })).code, 0);
  assert.equal(
    checked.output,
    "warning: the files for TLS to the agent were not read, because its address is not https://...\n" +
      "flags and environment are valid; the agent (127.0.0.1:1) was not asked\n",
  );
});

test("check fails where the proxy's agent is unreachable", async () => {
  const flags = ["-sidecar-for", "web", "-http-addr", "127.0.0.1:1"];
  await using checked = runPostern(["check", ...flags]);
  checked.expectEnd();
  assert.equal((await checked.process.waitExit({ timeoutMs: 30_000 })).code, 1);
  assert.match(checked.output, /Cannot ask Consul about this proxy: .*127\.0\.0\.1:1.*refused/);
});

test("check reports the proxy's warnings", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const [certificate, key] = ["web.pem", "web.key"];
  const tls = {
    certificate: { source: "file", cert: certificate, key },
    validation: { source: "none" },
  };
  await chmod(join(mesh.directory, key), 0o644);
  await writeFile(file, JSON.stringify({ ...config, inbound: { ...config.inbound, tls } }));
  await using checked = runPostern(["check", "-config", file]);
  checked.expectEnd();
  assert.equal((await checked.process.waitExit({ timeoutMs: 30_000 })).code, 0);
  assert.match(
    checked.output,
    /^warning: .*web\.key can be read by others \(mode 0644\)$/m,
  );
  assert.match(checked.output, /^warning: inbound\.tls asks nobody for a certificate/m);
});

test("check names a file once, however many listeners use it", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const credentials = { source: "file", cert: "web.pem", key: "web.key", ca: "roots.pem" };
  const rules = (exact: string) => ({
    validation: { source: "file", ca: "roots.pem", sanMatchers: [{ type: "dns", exact }] },
  });
  config.credentials = credentials;
  config.inbound.tls = rules("a.example");
  config.upstreams[0].tls = rules("b.example");
  const linesAbout = async () => {
    await writeFile(file, JSON.stringify(config));
    await using checked = runPostern(["check", "-config", file]);
    checked.expectEnd();
    await checked.process.waitExit({ timeoutMs: 30_000 });
    return checked.output.split("\n").filter((line) => line.includes("roots.pem"));
  };
  assert.match((await linesAbout()).join("\n"), /^validation roots\.pem \(file [^)]*roots\.pem\)$/);
  await writeFile(join(mesh.directory, "roots.pem"), "");
  assert.match((await linesAbout()).join("\n"), /^ {2}secret roots\.pem [^\n]*roots\.pem[^\n]*$/);
});

test("wait-ready ends with 0 when the proxy is ready, and with 1 when its time is over", async () => {
  await using mesh = await createFileSidecar();
  const admin = `${mesh.admin.host}:${mesh.admin.port}`;
  await using late = runPostern(["wait-ready", "-admin", admin, "-timeout", "300ms"]);
  late.expectEnd();
  assert.equal((await late.process.waitExit({ timeoutMs: 30_000 })).code, 1);
  assert.match(late.output, new RegExp(`proxy at ${admin}: not ready after 0.3s.*refused`, "i"));

  await using waiting = runPostern(["wait-ready", "-admin", admin, "-timeout", "60s"]);
  waiting.expectEnd();
  await using _web = runPostern(mesh.args);
  assert.equal((await waiting.process.waitExit({ timeoutMs: 60_000 })).code, 0);
  await eventually("it is as ready as was said", async () => await mesh.readyStatus() === 200);
});
