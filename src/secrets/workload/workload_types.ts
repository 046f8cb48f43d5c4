/**
 * What a proxy needs of the SPIFFE Workload API; field numbers are those of the standard (SPIFFE Workload API
 * 5.1).
 *
 * @module
 */

import { Protobuf } from "../../wire/mod.ts";

export const WORKLOAD_PROTOBUF: Protobuf = new Protobuf({
  /** Answer of FetchX509SVID. Every one is the whole state. */
  X509SVIDResponse: {
    svids: "1 repeated X509SVID",
    // DER, one list each.
    crl: "2 repeated bytes",
    // By id of the trust domain: certificates in DER, one after the other.
    federated_bundles: "3 map bytes",
  },
  X509SVID: {
    spiffe_id: "1 string",
    // Certificates in DER, one after the other, leaf first.
    x509_svid: "2 bytes",
    // PKCS#8 in DER.
    x509_svid_key: "3 bytes",
    // Of the SVID's trust domain, as above.
    bundle: "4 bytes",
    hint: "5 string",
  },
  /** Answer of FetchX509Bundles. Every one is the whole state. */
  X509BundlesResponse: { crl: "1 repeated bytes", bundles: "2 map bytes" },
});
