from ._catalogue import (
    NAMES as NAMES,
    DataStatus as DataStatus,
    absent as absent,
    data_folder as data_folder,
    load as load,
    load_weights as load_weights,
    status as status,
)
from ._dataset import (
    DataDamaged as DataDamaged,
    DataError as DataError,
    DataMissing as DataMissing,
    Dataset as Dataset,
    DataUnreachable as DataUnreachable,
)
from ._fetch import fetch as fetch
from ._own import (
    OwnDataset as OwnDataset,
    PublicColumn as PublicColumn,
    draft as draft,
    encode_file as encode_file,
    load_file as load_file,
)
from ._unit_ball import to_unit_ball as to_unit_ball, to_unit_sphere as to_unit_sphere
