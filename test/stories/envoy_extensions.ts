/** Extensions of Envoy that no plugin gives: named and left out, or, where one is required, nothing changes. */

import assert from "node:assert/strict";
import test from "node:test";
import { QuestionSender, startPathApp } from "../kit/mesh/l7_requests.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";

export function envoyExtensions(agents: Agents): void {
  test("an extension of Envoy is named, and a required one lets nothing change", async () => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using app = await startPathApp(mesh.host);
    const given = { ProxyType: "connect-proxy", Listener: "inbound", Script: "-- nothing" };
    const extended = (Required: boolean, kilobytes: number) =>
      mesh.configEntry({
        Kind: "service-defaults",
        Name: "db",
        Protocol: "http",
        MaxRequestHeadersKB: kilobytes,
        EnvoyExtensions: [{ Name: "builtin/lua", Required, Arguments: given }],
      });
    await extended(false, 60);
    const place = await mesh.place();
    await using db = await mesh.serve({ name: "db", port: app.port, sidecarPort: place.port });
    const sender = new QuestionSender(mesh);
    const ask = async (bytes = 1) => {
      const fields = [`x-pad: ${"a".repeat(bytes)}`];
      const { status } = await sender.send(place, {
        source: "web",
        method: "GET",
        path: "/",
        fields,
        body: "",
      });
      return status;
    };
    await eventually("it is answered", async () => await ask() === 200);
    await db.process.waitFor(
      /registration warning="service-defaults db: EnvoyExtensions\[0\][^\n]*builtin\/lua/,
      { timeoutMs: 20_000 },
    );

    await extended(true, 1);
    const required =
      /configuration refused [^\n]*builtin\/lua[^\n]* does not open at the next start/;
    await db.process.waitFor(required, { timeoutMs: 20_000 });
    assert.equal(await ask(5_000), 200, "the head may still be as long as before");

    await extended(false, 1);
    await eventually("the rest of the entry counts", async () => await ask(5_000) === 431);
  });
}
