/** The options that `postern dataplane` reads from flags, variables and files. */
import { ProxyError } from "../../../src/base/mod.ts";
import {
  type DataplaneOptions,
  dataplaneOptions,
} from "../../../src/app/consul_dataplane/options.ts";
import { dataplaneValues, parseDataplane } from "../../../src/app/consul_dataplane/values.ts";

type Env = Readonly<Record<string, string>>;

export interface DataplaneInput {
  readonly env?: Env;
  readonly files?: Readonly<Record<string, string>>;
}

export function readDataplane(
  argv: readonly string[],
  { env = {}, files = {} }: DataplaneInput = {},
): DataplaneOptions {
  const readText = (path: string, flag: string) => {
    const text = files[path];
    if (text === undefined) throw new ProxyError("config_invalid", `Cannot read ${flag} "${path}"`);
    return text;
  };
  const { flags, forEnvoy } = parseDataplane(argv, env);
  return dataplaneOptions(dataplaneValues(flags, env, readText), { forEnvoy, readText });
}
