import { CONSUL } from "../kit/mesh/consul.ts";
import { missingRights } from "../stories/missing_rights.ts";

missingRights(CONSUL);
