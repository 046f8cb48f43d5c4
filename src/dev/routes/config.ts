/** `/v1/config` and `/v1/discovery-chain`. @module */

import { compileChain, NO_OVERRIDES } from "../entries/chain_compiler.ts";
import type { ChainOverrides } from "../entries/chain_targets.ts";
import { checkKind, readEntryBody } from "../entries/config_entries.ts";
import {
  type Api,
  blockingRead,
  type Call,
  indexHeaders,
  param,
  replyWhenNewer,
} from "../http/api.ts";
import { objectAt, textAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";
import { CONFIG, configTopic } from "../store.ts";

export function addConfigRoutes(api: Api): void {
  api.put("/v1/config", async (call) => {
    const entry = readEntryBody(await call.req.text());
    const cas = call.req.query("cas");
    return Response.json(call.env.config.put(entry, cas === undefined ? undefined : Number(cas)));
  });
  api.get("/v1/config/:kind", listKind);
  api.get("/v1/config/:kind/:name", readEntry);
  api.delete("/v1/config/:kind/:name", (call) => {
    call.env.config.remove(param(call, "kind"), param(call, "name"));
    return Response.json({});
  });
  api.get("/v1/discovery-chain/:name", (call) => chain(call, NO_OVERRIDES));
  api.post(
    "/v1/discovery-chain/:name",
    async (call) => chain(call, readOverrides(await call.req.text())),
  );
}

async function readEntry(call: Call): Promise<Response> {
  const [kind, name] = [param(call, "kind"), param(call, "name")];
  const { config } = call.env;
  const { value, index } = await blockingRead(call, () => ({
    index: tableIndex(call),
    topics: [configTopic(kind, name)],
    value: config.find(kind, name),
  }));
  const headers = indexHeaders(index);
  if (!value) {
    throw new HttpRefusal(404, `Config entry not found for "${kind}" / "${name}"`, headers);
  }
  return Response.json(value, { headers });
}

function listKind(call: Call): Promise<Response> {
  const kind = param(call, "kind");
  checkKind(kind);
  return replyWhenNewer(call, () => ({
    index: tableIndex(call),
    topics: [configTopic(kind)],
    value: call.env.config.list(kind),
  }));
}

function chain(call: Call, overrides: ChainOverrides): Promise<Response> {
  const service = param(call, "name");
  const { ca, config, datacenter } = call.env;
  return replyWhenNewer(call, () => {
    const { chain: value, topics } = compileChain({
      service,
      datacenter: call.req.query("compile-dc") || datacenter,
      trustDomain: ca.trustDomain,
      overrides,
      find: (kind, name) => config.find(kind, name),
    });
    return { index: tableIndex(call), topics, value: { Chain: value } };
  });
}

/** Config entries have the index of their table, whichever is read. */
function tableIndex({ env: { store } }: Call): number {
  return store.indexOf(CONFIG) ?? 1;
}

function readOverrides(text: string): ChainOverrides {
  const body = decodeBody(text, "chain_overrides");
  return {
    protocol: textAt(body, "OverrideProtocol"),
    connectTimeout: body["OverrideConnectTimeout"] ?? null,
    meshGatewayMode: textAt(objectAt(body, "OverrideMeshGateway"), "Mode"),
  };
}
