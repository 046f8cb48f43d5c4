/**
 * One SDS server, in our own form.
 *
 * @module
 */

import * as v from "valibot";
import { type Address, issueWords } from "../../base/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import {
  checked,
  flag,
  isRecord,
  list,
  message,
  type Reader,
  reader,
  type Report,
} from "../envoy/message.ts";
import type { SdsNode, SdsServer } from "../plan.ts";
import { duration, parseAddress, problemOf, text } from "../values.ts";
import { fileCertificateRef, fileSource, PAIR_ENTRIES } from "./file_certificate.ts";
import { isLoopback, metadataName, sdsServer } from "./sds_defaults.ts";
import type { ServerReading } from "./sds_servers.ts";

const NAMES = { names: "camelCase" } as const;

const TLS = message({
  serverName: v.optional(text()),
  ca: v.optional(text()),
  systemRoots: v.optional(flag(), false),
  ...PAIR_ENTRIES,
}, NAMES);

const LOCALITY = message({
  region: v.optional(text()),
  zone: v.optional(text()),
  subZone: v.optional(text()),
}, NAMES);

const NODE = message({
  id: v.optional(text()),
  cluster: v.optional(text()),
  metadata: v.optional(jsonObject()),
  locality: v.optional(LOCALITY),
}, NAMES);

const FIELDS = message({
  name: v.optional(text()),
  address: v.optional(addresses()),
  addresses: v.optional(addresses()),
  tls: v.optional(TLS),
  plaintext: v.optional(flag(), false),
  metadata: v.optional(metadata(), {}),
  keepAlive: v.optional(duration(1_000)),
  keepAliveTimeout: v.optional(duration(100)),
  backoff: v.optional(
    message({ base: v.optional(duration(1)), max: v.optional(duration(1)) }, NAMES),
  ),
  node: v.optional(NODE),
}, NAMES);

export function nativeServer(reading: ServerReading): Reader<SdsServer> {
  return checked(FIELDS, (found, report): SdsServer | undefined => {
    if (found.address && found.addresses) report(["addresses"], "cannot be beside address");
    const addresses = found.address ?? found.addresses;
    if (!addresses) return report(["address"], "is missing");
    const tls = found.tls ? tlsOf(found.tls, addresses, report) : null;
    if (tls && found.plaintext) report(["plaintext"], "cannot be true beside tls");
    const far = addresses.find((address) => !isLoopback(address));
    if (!found.tls && far && !found.plaintext) {
      report(
        ["tls"],
        "is missing: secrets would cross the network in clear; if that is meant, say plaintext: true",
      );
    }
    const { backoff, keepAlive, keepAliveTimeout } = found;
    const backoffBaseMs = backoff?.base ?? 500;
    const backoffMaxMs = backoff?.max ?? Math.max(30_000, backoffBaseMs);
    if (backoffMaxMs < backoffBaseMs) report(["backoff", "max"], "is below base");
    return tls === undefined ? undefined : sdsServer({
      name: found.name ?? "",
      addresses,
      tls,
      metadata: found.metadata,
      backoffBaseMs,
      backoffMaxMs,
      ...(keepAlive !== undefined && { keepAliveMs: keepAlive }),
      ...(keepAliveTimeout !== undefined && { keepAliveTimeoutMs: keepAliveTimeout }),
    }, nodeOf(found.node, reading.node));
  });
}

/** `undefined`: something was reported. */
function tlsOf(
  found: v.InferOutput<typeof TLS>,
  addresses: readonly Address[],
  report: Report,
): SdsServer["tls"] | undefined {
  const at = (path: readonly (string | number)[], message: string) =>
    report(["tls", ...path], message);
  const { ca, systemRoots, serverName = hostOf(addresses) } = found;
  if (serverName === undefined) {
    return at(["serverName"], "is missing, and a unix socket's path names nobody");
  }
  if (ca === undefined && !systemRoots) {
    return at(["ca"], "is missing; for the system's roots, say systemRoots: true");
  }
  const pair = Object.keys(PAIR_ENTRIES).some((name) =>
    found[name as keyof typeof PAIR_ENTRIES] !== undefined
  );
  const source = pair ? fileCertificateRef(found, at)?.source : undefined;
  const certificate = source?.kind === "spec" && source.spec.type === "certificate"
    ? source.spec
    : undefined;
  return {
    serverName,
    validation: {
      type: "validation",
      ...(ca !== undefined && { trustedCa: fileSource(ca) }),
      systemRoots,
      rules: NO_RULES,
    },
    ...(certificate && { certificate }),
  };
}

/** The one host that all of them have. */
export function hostOf(addresses: readonly Address[]): string | undefined {
  const hosts = new Set(addresses.map((address) => address.kind === "tcp" ? address.host : ""));
  const [host] = hosts;
  return hosts.size === 1 && host ? host : undefined;
}

function nodeOf(found: v.InferOutput<typeof NODE> | undefined, node: SdsNode): SdsNode {
  const { region = "", zone = "", subZone = "" } = found?.locality ?? {};
  const locality = found?.locality ? { region, zone, subZone } : node.locality;
  return {
    id: found?.id ?? node.id,
    cluster: found?.cluster ?? node.cluster,
    metadata: found?.metadata ?? node.metadata,
    ...(locality && { locality }),
  };
}

/** One address, or a list of them. */
function addresses(): Reader<readonly Address[]> {
  const many = list(address(), 100);
  return reader((value, report) => {
    const wanted = v.safeParse(many, Array.isArray(value) ? value : [value]);
    if (wanted.success) {
      return wanted.output.length > 0 ? wanted.output : report([], "must not be empty");
    }
    for (const { path, message } of wanted.issues.map(problemOf)) {
      report(Array.isArray(value) ? path : [], message);
    }
    return undefined;
  });
}

function address(): Reader<Address> {
  return reader((value, report) => {
    const parsed = parseAddress(typeof value === "string" ? value : "", { unix: true });
    return typeof parsed === "string" ? report([], parsed) : parsed;
  });
}

function metadata(): Reader<Readonly<Record<string, string>>> {
  const name = metadataName();
  return reader((value, report) => {
    if (!isRecord(value)) return report([], "must be an object");
    const found = new Map<string, string>();
    for (const [key, entry] of Object.entries(value)) {
      const parsed = v.safeParse(name, key);
      if (!parsed.success) report([key], issueWords(parsed.issues[0]));
      else if (typeof entry !== "string" || !/^[\x20-\x7e]{1,8192}$/.test(entry)) {
        report([key], "must be a text of plain characters");
      } else if (found.has(parsed.output)) report([key], "is given twice");
      else found.set(parsed.output, entry);
    }
    return Object.fromEntries(found);
  });
}

/** Kept as it is: a `Struct` holds any JSON. */
function jsonObject(): Reader<Readonly<Record<string, unknown>>> {
  return reader((value, report) => isRecord(value) ? value : report([], "must be an object"));
}
