/** The log lines about the leaf and the roots of Consul, worded as those of other secrets. @module */

import type { Log } from "../../base/mod.ts";
import type { CredentialsPart } from "../../snapshot/mod.ts";

const SOURCE = "consul";

/** Logs how the credentials differ from `last`. */
export function logRotation(
  log: Log,
  last: CredentialsPart | undefined,
  now: CredentialsPart,
): void {
  if (!last || now === last) return;
  const { uri, serial, notAfterMs } = now;
  if (now.certPem !== last.certPem) {
    const expires = new Date(notAfterMs).toISOString();
    const of = { secret: "leaf", source: SOURCE, uri, serial, expires };
    const fields = { ...of, old_serial: last.serial };
    if (last.uri === uri) log.info("certificate rotated", fields);
    else log.warn("certificate rotated with another identity", { ...fields, old_uri: last.uri });
  }
  const roots = now.rootPems;
  if (roots.length !== last.rootPems.length || !roots.every((pem) => last.rootPems.includes(pem))) {
    log.info("trust rotated", { secret: "roots", source: SOURCE });
  }
}
