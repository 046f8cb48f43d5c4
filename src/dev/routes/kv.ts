/** `/v1/kv`: single keys, without sessions, flags and listings. @module */

import { Buffer } from "node:buffer";
import type { Api, Call } from "../http/api.ts";
import { indexHeaders } from "../http/api.ts";
import { HttpRefusal } from "../refusal.ts";

/** As Consul's `kv_max_value_size`. */
const VALUE_LIMIT_BYTES = 512 * 1024;
const PATH = "/v1/kv/";

export function addKeyRoutes(api: Api): void {
  api.put("/v1/kv/*", async (call) => {
    const value = new Uint8Array(await call.req.arrayBuffer());
    if (value.length > VALUE_LIMIT_BYTES) {
      throw new HttpRefusal(413, `Value exceeds ${VALUE_LIMIT_BYTES} byte limit`);
    }
    const { keys, store } = call.env;
    keys.set(keyOf(call), { value, index: store.commit([]) });
    return Response.json(true);
  });
  api.get("/v1/kv/*", (call) => {
    const Key = keyOf(call);
    const found = call.env.keys.get(Key);
    if (!found) throw new HttpRefusal(404, "");
    const { value, index } = found;
    const Value = Buffer.from(value).toString("base64");
    return Response.json([{ Key, Flags: 0, Value, CreateIndex: index, ModifyIndex: index }], {
      headers: indexHeaders(index),
    });
  });
  api.delete("/v1/kv/*", (call) => {
    call.env.keys.delete(keyOf(call));
    return Response.json(true);
  });
}

function keyOf(call: Call): string {
  const key = decodeURIComponent(call.req.path.slice(PATH.length));
  if (key === "") throw new HttpRefusal(400, "Missing key name");
  return key;
}
