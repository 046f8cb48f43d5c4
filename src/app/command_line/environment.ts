/**
 * Refuses variables that would change this program or its trust without a flag, and rights that come from the
 * executable's file instead of the process that started it.
 *
 * The executable contains a whole runtime, which reads variables of its own. Those that would run code or
 * write files before the first line here are removed from it (`scripts/runtime_variables.ts`).
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables of the runtime that only concern its package manager. */
const HARMLESS = /^BUN_(?:INSTALL|INSTALL_[A-Z_]+|TMPDIR)$/;

/**
 * Throws `config_invalid` naming the first such variable. `compiled`: this is the executable, not the
 * project's source under a runtime that the user chose and may configure.
 */
export function checkEnvironment(env: Environment, options: { readonly compiled: boolean }): void {
  const isSet = (name: string) => (env[name] ?? "") !== "";
  if (env.NODE_TLS_REJECT_UNAUTHORIZED === "0") {
    throw refuse(
      "NODE_TLS_REJECT_UNAUTHORIZED=0",
      "with it the runtime takes every certificate; give the agent's CA with -ca-file",
    );
  }
  if (isSet("SSLKEYLOGFILE")) {
    throw refuse("SSLKEYLOGFILE", "with it the keys of all connections could be read from a file");
  }
  if (!options.compiled) return;
  for (const name of Object.keys(env).sort()) {
    if (!name.startsWith("BUN_") || HARMLESS.test(name) || !isSet(name)) continue;
    throw refuse(name, "it changes the runtime inside this executable");
  }
}

/**
 * Throws `config_invalid` where the executable's file gave this process rights (a file capability, or a
 * setuid or setgid bit): any user who may start it would have them, with flags, files and variables of their
 * choice. `status` is `/proc/self/status`; the kernel's rule for `AT_SECURE` is applied to it, since a process
 * with such rights cannot read its auxiliary vector.
 */
export function checkRights(status: string): void {
  const [uid, effectiveUid] = numbersOf(status, "Uid", 10);
  const [gid, effectiveGid] = numbersOf(status, "Gid", 10);
  const [permitted = 0n] = numbersOf(status, "CapPrm", 16);
  const [ambient = 0n] = numbersOf(status, "CapAmb", 16);
  const setId = uid !== effectiveUid || gid !== effectiveGid;
  if (!setId && (uid === 0n || (permitted & ~ambient) === 0n)) return;
  const how = setId ? "setuid or setgid bit" : "file capability";
  throw new ProxyError(
    "config_invalid",
    `Cannot start with the rights of a ${how} on the executable, which gives them to everybody: ` +
      `take it away (${setId ? "chmod ug-s" : "setcap -r"}), and give this process an ambient ` +
      "capability (AmbientCapabilities= of systemd, setpriv --ambient-caps)",
  );
}

function numbersOf(status: string, field: string, base: 10 | 16): readonly bigint[] {
  const values = status.match(new RegExp(`^${field}:(.*)$`, "m"))?.[1]?.match(/[0-9a-f]+/g) ?? [];
  return values.map((value) => BigInt(base === 16 ? `0x${value}` : value));
}

function refuse(variable: string, reason: string): ProxyError {
  return new ProxyError(
    "config_invalid",
    `Cannot start with ${variable} in the environment: ${reason}; unset it`,
  );
}
