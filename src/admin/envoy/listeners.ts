/** Listeners as Consul names them to Envoy, and `/listeners` in Envoy's shape. @module */

import { type Address, type BindAddress, formatAddress } from "../../base/mod.ts";
import { INBOUND_KEY, type Snapshot, upstreamLabel } from "../../snapshot/mod.ts";
import { lines } from "../redact.ts";
import type { ListenerShown } from "../merge.ts";

export const PUBLIC_LISTENER = "public_listener";

/** Prefix of the name of an exposed path's listener. */
export function exposedPathName(path: string): string {
  return `exposed_path_${path.replace(/[^a-zA-Z0-9]+/g, "")}`;
}

/** `public_listener:0.0.0.0:20000`, `db:127.0.0.1:9191`; its own name where Consul has no such listener. */
export function listenerName(
  { name, address }: Pick<ListenerShown, "name" | "address">,
  snapshot: Snapshot | undefined,
): string {
  const upstream = snapshot?.upstreams[name];
  if (upstream) return named(upstreamLabel(upstream), upstream.bind);
  const edge = snapshot?.edges[name];
  if (edge) return named(edge.http.protocol, edge.bind);
  const exposed = snapshot?.exposed[name];
  if (exposed) return named(exposedPathName(exposed.path), exposed.bind);
  const inbound = snapshot?.inbound[name];
  if (inbound && name === INBOUND_KEY) return named(PUBLIC_LISTENER, inbound.bind);
  return address === "" ? name : `${name}:${address}`;
}

function named(prefix: string, bind: BindAddress | null): string {
  if (!bind) return prefix;
  return `${prefix}:${bind.kind === "unix" ? bind.path : formatAddress(bind)}`;
}

/** `/listeners`: `name::address` as Envoy has it, and the trouble where there is one. */
export function listenersText(
  listeners: readonly ListenerShown[],
  snapshot: Snapshot | undefined,
): string {
  return lines(listeners.map((listener) => {
    const { address, state, error, fault } = listener;
    const name = listenerName(listener, snapshot);
    const how = state === "listening" && fault !== "" ? "unusable" : state;
    const why = error || fault;
    const trouble = how === "listening" ? "" : `::${how}${why && `::${why}`}`;
    return `${name}::${address || "-"}${trouble}`.replaceAll("\n", " ");
  }));
}

/** `/listeners?format=json`: those that are bound, as Envoy shows no others. */
export function listenerStatusesJson(
  listeners: readonly ListenerShown[],
  snapshot: Snapshot | undefined,
): Json {
  const bound = listeners.filter(({ address, state }) => address !== "" && state !== "failed");
  return {
    listener_statuses: bound.map((listener) => {
      const name = listenerName(listener, snapshot);
      return { name, local_address: addressJson(parseAddress(listener.address)) };
    }),
  };
}

/** Reads an address that {@link formatAddress} wrote. */
function parseAddress(text: string): Address {
  if (text.startsWith("unix://")) return { kind: "unix", path: text.slice("unix://".length) };
  const colon = text.lastIndexOf(":");
  const host = text.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
  return { kind: "tcp", host, port: Number(text.slice(colon + 1)) };
}

export type Json = Readonly<Record<string, unknown>>;

export function addressJson(address: Address | BindAddress): Json {
  if (address.kind === "unix") return { pipe: { path: address.path } };
  return { socket_address: { address: address.host, port_value: address.port } };
}

/** A named extension with its configuration; `type` as below `type.googleapis.com/envoy`. */
export function typedJson(name: string, type: string, config: Json = {}): Json {
  return { name, typed_config: { "@type": `type.googleapis.com/envoy.${type}`, ...config } };
}

/** A time span as protobuf's JSON has it: `2.500s`. */
export function durationJson(ms: number): string {
  const whole = Math.floor(ms / 1_000);
  const rest = ms % 1_000;
  return rest === 0 ? `${whole}s` : `${whole}.${String(rest).padStart(3, "0")}s`;
}
