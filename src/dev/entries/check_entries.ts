/** Refuses config entries that no proxy could use. Consul refuses more. @module */

import { readJwtProvider, readPermission } from "../../consul/mod.ts";
import { type JsonObject, numberAt, objectAt, objectsAt, textAt } from "../json.ts";
import { parseFilter } from "../filter.ts";
import { HttpRefusal } from "../refusal.ts";
import { compileChain, NO_OVERRIDES, protocolOf } from "./chain_compiler.ts";
import type { FindEntry } from "./chain_targets.ts";

const HTTP_PROTOCOLS = ["http", "http2", "grpc"];

/** Refuses an entry that makes no sense by itself. */
export function checkEntry(entry: JsonObject): void {
  const fault = faultOf(entry);
  if (fault === undefined) return;
  const kind = textAt(entry, "Kind");
  throw new HttpRefusal(400, `Cannot keep the ${kind} entry "${textAt(entry, "Name")}": ${fault}`);
}

function faultOf(entry: JsonObject): string | undefined {
  switch (textAt(entry, "Kind")) {
    case "service-intentions":
      return faultOfIntentions(entry);
    case "service-splitter":
      return faultOfSplits(entry);
    case "service-resolver":
      for (const subset of Object.values(objectAt(entry, "Subsets"))) {
        parseFilter(textAt(objectAt({ subset }, "subset"), "Filter"));
      }
      return undefined;
    case "service-defaults": {
      const protocol = textAt(entry, "Protocol");
      const isKnown = ["", "tcp", ...HTTP_PROTOCOLS].includes(protocol);
      return isKnown ? undefined : `the Protocol "${protocol}" is unknown`;
    }
    case "jwt-provider": {
      const provider = readJwtProvider(entry);
      return provider?.kind === "refused" ? provider.reason : undefined;
    }
    default:
      return undefined;
  }
}

function faultOfIntentions(entry: JsonObject): string | undefined {
  const sources = objectsAt(entry, "Sources");
  const names = sources.map((source) => `${textAt(source, "Peer")}/${textAt(source, "Name")}`);
  if (sources.length === 0) return "it has no Sources";
  if (new Set(names).size < names.length) return "a source stands there twice";
  for (const [at, source] of sources.entries()) {
    const action = textAt(source, "Action");
    const permissions = objectsAt(source, "Permissions");
    if (textAt(source, "Name") === "") return `Sources[${at}].Name is missing`;
    const isClear = permissions.length > 0 ? action === "" : ["allow", "deny"].includes(action);
    if (!isClear) return `Sources[${at}] wants the Action allow or deny, or else Permissions`;
    for (const [number, permission] of permissions.entries()) {
      const { refused } = readPermission(permission);
      if (refused !== undefined) return `Sources[${at}].Permissions[${number}]: ${refused}`;
      if (Object.keys(objectAt(permission, "HTTP")).length === 0) {
        return `Sources[${at}].Permissions[${number}] has no condition in HTTP`;
      }
    }
  }
  return undefined;
}

function faultOfSplits(entry: JsonObject): string | undefined {
  const weights = objectsAt(entry, "Splits").map((split) => numberAt(split, "Weight"));
  const sum = weights.reduce((all, weight) => all + weight, 0);
  return Math.abs(sum - 100) < 0.005 ? undefined : `the weights add up to ${sum}, not to 100`;
}

/** Refuses entries that do not fit together, as `find` shows them; `names`: those of all entries. */
export function checkEntries(
  find: FindEntry,
  names: ReadonlySet<string>,
  datacenter: string,
): void {
  for (const service of names) {
    compileChain({ service, datacenter, trustDomain: "consul", overrides: NO_OVERRIDES, find });
    const intentions = find("service-intentions", service) ?? {};
    const missing = providersIn(intentions).find((provider) => !find("jwt-provider", provider));
    if (missing !== undefined) {
      throw misfit(service, `they want tokens of "${missing}", which is no jwt-provider`);
    }
    const protocol = protocolOf(service, find);
    const hasPermissions = objectsAt(intentions, "Sources")
      .some((source) => objectsAt(source, "Permissions").length > 0);
    if (hasPermissions && !HTTP_PROTOCOLS.includes(protocol)) {
      throw misfit(service, `they have Permissions, and its protocol is ${protocol}`);
    }
  }
}

function providersIn(intentions: JsonObject): readonly string[] {
  const permissions = objectsAt(intentions, "Sources")
    .flatMap((source) => objectsAt(source, "Permissions"));
  return [intentions, ...permissions].flatMap((holder) =>
    objectsAt(objectAt(holder, "JWT"), "Providers").map((provider) => textAt(provider, "Name"))
  );
}

function misfit(service: string, fact: string): HttpRefusal {
  return new HttpRefusal(500, `Cannot keep the intentions of ${service}: ${fact}`);
}
