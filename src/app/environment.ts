/**
 * Variables that would change what this program is or whom it trusts, behind the back of its flags.
 * The executable contains a whole runtime, and that runtime listens to its own variables.
 *
 * A variable that replaces the program before its first line (`BUN_BE_BUN`) cannot be refused from
 * here: whoever sets the environment of a process decides what it runs.
 *
 * @module
 */

import { ProxyError } from "../base/mod.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Of the runtime's own variables these only concern its package manager. */
const HARMLESS = /^BUN_(?:INSTALL|INSTALL_[A-Z_]+|TMPDIR)$/;

/**
 * Throws `config_invalid` naming the first such variable. `compiled`: this is the executable, not the
 * project's source under a runtime that the user chose and may configure.
 */
export function checkEnvironment(
  env: Environment,
  options: { readonly compiled: boolean },
): void {
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

function refuse(variable: string, reason: string): ProxyError {
  return new ProxyError(
    "config_invalid",
    `Cannot start with ${variable} in the environment: ${reason}; unset it`,
  );
}
