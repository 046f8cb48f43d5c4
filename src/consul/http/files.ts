/**
 * Files for connections to Consul: the token, CA certificates, the client certificate. They are read and
 * checked whole; an unusable newer version never replaces one that works.
 *
 * @module
 */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf, ProxyError } from "../../base/mod.ts";
import { type FlagNames, PROXY_FLAGS } from "../model/flag_names.ts";

const FILE_LIMIT_BYTES = 1 << 20;
const CA_PATH_FILES = 1_000;

/** Paths of the system's trusted CAs; the first file that exists is used. */
const SYSTEM_CA_FILES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Paths of the files for TLS; empty text means not given. */
export interface TlsFiles {
  readonly caFile: string;
  readonly caPath: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** `""`: the host of the address. */
  readonly serverName: string;
  readonly verify: boolean;
  /** For messages; absent: those of `postern proxy`. */
  readonly names?: FlagNames;
}

/** The same files, read and checked, as PEM. */
export interface TlsTexts extends Pick<TlsFiles, "serverName" | "verify"> {
  /** Empty: the system has none. */
  readonly caPems: readonly string[];
  /** Their source, for people: `-ca-file (CONSUL_CACERT) "/etc/consul/ca.pem"`. */
  readonly caName: string;
  /** The certificate's source, likewise; `""`: there is none. */
  readonly certName: string;
  readonly certPem: string;
  readonly keyPem: string;
  readonly names: FlagNames;
}

/** Fails with `config_invalid`, naming flag and variable. */
export function readTlsFiles(files: TlsFiles): TlsTexts {
  const { names = PROXY_FLAGS } = files;
  const { caPems, caName } = readCas(files, names);
  const { cert: certName, key: keyName } = names;
  if (files.certFile && !files.keyFile) {
    throw invalid(`Cannot use ${certName} without ${keyName}: give both`);
  }
  if (files.keyFile && !files.certFile) {
    throw invalid(`Cannot use ${keyName} without ${certName}: give both`);
  }
  let certPem = "";
  let keyPem = "";
  if (files.certFile) {
    certPem = readCertificates(files.certFile, certName).join("");
    keyPem = readText(files.keyFile, keyName);
    checkKey(files, { certPem, keyPem, name: keyName });
  }
  const { serverName, verify } = files;
  const shownCert = certPem && `${certName} ${quote(files.certFile)}`;
  return { caPems, caName, certName: shownCert, certPem, keyPem, serverName, verify, names };
}

function readCas(
  { caFile, caPath }: TlsFiles,
  names: FlagNames,
): Pick<TlsTexts, "caPems" | "caName"> {
  if (caFile) {
    const name = names.caFile;
    return { caPems: readCertificates(caFile, name), caName: `${name} ${quote(caFile)}` };
  }
  if (caPath) {
    const name = names.caPath;
    return { caPems: readCaPath(caPath, name), caName: `${name} ${quote(caPath)}` };
  }
  return { caPems: readSystemCa(), caName: "what this system trusts" };
}

/** A token goes into a header: a character that could end the line is refused; the token is never shown. */
export function checkToken(token: string, name: string): void {
  if (/[^\x21-\x7e]/.test(token)) {
    throw invalid(`Cannot use ${name}: it has characters that no ACL token has`);
  }
}

/** A TLS engine accepts a wrong or missing key without an error; the handshake then fails. */
function checkKey(
  files: TlsFiles,
  options: { readonly certPem: string; readonly keyPem: string; readonly name: string },
): void {
  const { certPem, keyPem, name } = options;
  const cannot = `Cannot use ${name} ${quote(files.keyFile)}`;
  let fits: boolean;
  try {
    fits = new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem));
  } catch (cause) {
    throw invalid(`${cannot}: it is no private key (PEM) without passphrase`, cause);
  }
  if (!fits) throw invalid(`${cannot}: it is not the key of ${quote(files.certFile)}`);
}

/** The trimmed token; `""` where the file is empty. Fails with `config_invalid`. */
export function readTokenFile(path: string, name: string): string {
  const token = readText(path, name).trim();
  checkToken(token, `${name} ${quote(path)}`);
  return token;
}

function readCaPath(path: string, name: string): string[] {
  let names: string[];
  try {
    names = statSync(path).isDirectory() ? readdirSync(path).sort() : [""];
  } catch (cause) {
    throw invalid(`Cannot use ${name} ${quote(path)}: ${messageOf(cause)}`, cause);
  }
  if (names.length > CA_PATH_FILES) {
    throw invalid(`Cannot use ${name} ${quote(path)}: it holds more than ${CA_PATH_FILES} files`);
  }
  const pems = names.flatMap((file) => {
    const full = file ? join(path, file) : path;
    return statSync(full).isFile() ? readCertificates(full, name) : [];
  });
  if (!pems.length) throw invalid(`Cannot use ${name} ${quote(path)}: it holds no certificate`);
  return pems;
}

function readSystemCa(): string[] {
  for (const path of SYSTEM_CA_FILES) {
    try {
      return [readFileSync(path, "utf8")];
    } catch {
      // The path is that of another system.
    }
  }
  return [];
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\n?/g;

function readCertificates(path: string, name: string): string[] {
  const pems = readText(path, name).match(CERTIFICATE) ?? [];
  if (!pems.length) {
    throw invalid(`Cannot use ${name} ${quote(path)}: there is no certificate (PEM) in it`);
  }
  for (const [at, pem] of pems.entries()) {
    try {
      new X509Certificate(pem);
    } catch (cause) {
      throw invalid(
        `Cannot use ${name} ${quote(path)}: certificate ${at + 1} cannot be read ` +
          `(${messageOf(cause)})`,
        cause,
      );
    }
  }
  return pems.map((pem) => pem.endsWith("\n") ? pem : `${pem}\n`);
}

function readText(path: string, name: string): string {
  try {
    if (statSync(path).size > FILE_LIMIT_BYTES) {
      throw new Error(`it is longer than ${FILE_LIMIT_BYTES} bytes`);
    }
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw invalid(`Cannot read ${name} ${quote(path)}: ${messageOf(cause)}`, cause);
  }
}

function quote(path: string): string {
  return JSON.stringify(path);
}

function invalid(message: string, cause?: unknown): ProxyError {
  return new ProxyError("config_invalid", message, cause === undefined ? undefined : { cause });
}
