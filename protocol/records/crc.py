"""CRC-32C (Castagnoli), reflected polynomial 0x82F63B78: the checksum of a record batch.

The compiled kernel computes it on the CPU's instruction where there is one. Without it the crc32c
package does, which is not imported otherwise (it asks for its own version, and that costs a start
15 ms), and where that has no wheel, crcmod, many times slower.
"""

from protocol.core.crc_packages import Crc, choose_package
from protocol.records import kernels

crc32c: Crc = kernels.continue_crc32c if kernels.COMPILED else choose_package()
