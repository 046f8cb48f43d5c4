/** A proxy with a configuration file that is restarted while its SPIFFE agent is away serves all the same. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { startEcho } from "../../kit/wire/echo.ts";
import { startPosternTls } from "../../kit/peers/postern_tls.ts";
import { eventually } from "../../kit/process/process.ts";
import { probeTls } from "../../kit/wire/tls_probe.ts";
import { clientPair } from "../../kit/wire/tls_session.ts";
import { startWorkloadServer, svidOf } from "../../kit/secrets/workload_server.ts";

const CA = createAuthority({ trustDomain: "example.org" });
const [, ROOT_LINE = ""] = CA.rootPem.split("\n");
const WEB = "spiffe://example.org/web";
const client = clientPair(CA.issueLeaf({ service: "api", uri: "spiffe://example.org/api" }));

test("with -config and -state-dir an SVID survives a restart while the agent is away", async () => {
  const state = await mkdtemp(join(tmpdir(), "postern-state-"));
  try {
    await using agent = await startWorkloadServer();
    await using echo = await startEcho({ host: "127.0.0.1" });
    const socket = agent.address.kind === "unix" ? `unix://${agent.address.path}` : "";
    const start = () =>
      startPosternTls({ inbound: { tls: { source: "workload", socket }, target: echo } }, {
        args: ["-state-dir", state],
      });
    type Proxy = Awaited<ReturnType<typeof start>>;
    /** The serial that is shown, once it is not `before`. */
    const shown = (proxy: Proxy, before?: string) =>
      eventually("an SVID is shown", async () => {
        const place = await proxy.place("tls_in");
        const outcome = place && await probeTls(place, client);
        return outcome?.accepted && outcome.serial !== before && outcome.serial;
      });
    const give = () => {
      agent.sendSvids({ svids: [svidOf(CA, WEB)] });
      agent.sendBundles({ bundles: { "spiffe://example.org": CA.rootDer } });
    };
    give();
    let first: string;
    {
      await using proxy = await start();
      first = await shown(proxy);
      const [file = ""] = await eventually("it is stored", async () => {
        const files = (await readdir(state)).filter((name) => !name.endsWith(".tmp"));
        const texts = await Promise.all(files.map((name) => readFile(join(state, name), "utf8")));
        // The SVID and the bundle may come one after the other.
        return texts.some((text) => text.includes(WEB) && text.includes(ROOT_LINE)) && files;
      });
      assert.equal((await stat(join(state, file))).mode & 0o777, 0o600);
    }
    agent.kill();
    {
      await using proxy = await start();
      assert.equal(await shown(proxy), first);
      // The proxy may serve before this line: it does not wait for the agent.
      await proxy.postern.process.waitFor(/secret unreachable.*kept=true/, { timeoutMs: 30_000 });
      await agent.start();
      give();
      await shown(proxy, first);
    }
    // An agent that is there and refuses is no agent that is away.
    agent.end("svids", 7, "no identity issued");
    await using denied = await start();
    await eventually("what was stored is dropped", () => {
      return /secret removed by its source.*dropped=true/.test(denied.output);
    });
    await eventually("no caller is let in", async () => {
      const place = await denied.place("tls_in");
      return place && !(await probeTls(place, client)).accepted;
    });
  } finally {
    await rm(state, { recursive: true, force: true });
  }
});
