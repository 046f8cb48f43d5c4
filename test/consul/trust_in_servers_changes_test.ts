/**
 * Tokens that end and roots that are replaced, beside servers alone and under load: connections do not
 * notice, and who gets another token by himself is soon obeyed again.
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { startDisturbedPair, withstands } from "../kit/mesh/disturbed_pair.ts";
import { EchoClient, waitForEcho } from "../kit/wire/echo.ts";
import { loginsOf } from "../kit/mesh/login.ts";
import { eventually } from "../kit/process/process.ts";
import { presentedSerial } from "../kit/wire/tls_probe.ts";

/** The shortest that Consul gives a token. */
const LIFE = "60s";

test("traffic survives a deleted token, a rotation of roots and an expired token", async (t) => {
  await using own = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "postern-trust-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  let logins: ReturnType<typeof loginsOf> | undefined;
  const on = own.use(
    await startDisturbedPair({
      async db(cluster, serviceId) {
        logins = loginsOf(cluster, { directory, ttl: LIFE });
        await logins.create();
        await logins.bearer({ svc: "db" });
        return await cluster.sidecar(serviceId, { args: logins.flags });
      },
    }),
  );
  const { cluster, pair } = on;
  const at = await cluster.place();
  await cluster.register({ name: "db", id: "db-2", port: pair.app.port, sidecarPort: at.port });
  const file = join(directory, "token");
  const ending = await cluster.serviceToken("db", { ttl: LIFE });
  await writeFile(file, ending);
  own.use(await cluster.sidecar("db-2", { args: ["-token-file", file] }));
  await waitForEcho(pair.upstream);
  const tokens = async () => (await logins?.tokens() ?? []).map(({ AccessorID }) => AccessorID);

  await t.test("a login's token is deleted", async () => {
    await withstands(on, { what: "token of a login deleted" }, async () => {
      const [deleted = ""] = await tokens();
      await cluster.call("DELETE", `/v1/acl/token/${deleted}`);
      await eventually("db has logged in again", async () => {
        return (await tokens()).some((id) => id !== deleted);
      });
    });
  });

  await t.test("the roots are rotated", async () => {
    const old = await EchoClient.open(pair.upstream);
    const listeners = [[pair.public, "web"], [at, "web"], [pair.webPublic, "db"]] as const;
    const serials = () =>
      Promise.all(listeners.map(([place, as]) => presentedSerial(place, { agent: cluster, as })));
    const before = await serials();
    await withstands(on, { what: "roots rotated" }, async () => {
      await cluster.rotateCa();
      await eventually("all present a leaf of the new root", async () => {
        return (await serials()).every((serial, index) => serial !== before[index]);
      }, { timeoutMs: 60_000, everyMs: 250 });
    });
    await old.exchange(new TextEncoder().encode("still here"));
    await old.finish();
  });

  await t.test("a token that is not renewed ends", async () => {
    const [first] = await tokens();
    await withstands(on, { what: "token ended", at }, async () => {
      await eventually("it has ended", async () => {
        const { status } = await cluster.call("GET", "/v1/acl/token/self", { token: ending });
        return status === 403;
      }, { timeoutMs: 90_000, everyMs: 250 });
      await writeFile(file, await cluster.serviceToken("db"));
      await eventually("the login was renewed before it ended, too", async () => {
        const now = await tokens();
        return now.length > 0 && !now.includes(first ?? "");
      }, { timeoutMs: 60_000, everyMs: 250 });
    });
  });
});
