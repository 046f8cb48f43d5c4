import { CONSUL } from "../kit/consul.ts";
import { missingRights } from "../stories/missing_rights.ts";

missingRights(CONSUL);
