"""Twenty-two properties of the elements from hydrogen to curium: the Magpie set, as a table.

L. Ward, A. Agrawal, A. Choudhary and C. Wolverton, A general-purpose machine learning framework
for predicting properties of inorganic materials, npj Comput. Mater. 2, 16028 (2016), as in the
package matminer 0.10.1 (its licence is below). The data are from Mathematica, from the CRC
Handbook and, for the ground states of the elements by PBE, from the OQMD. Nine values of noble
gases, At and Fr are missing there; they are replaced by the mean over the other elements.
"""

# matminer Copyright (c) 2015, The Regents of the University of California, through Lawrence
# Berkeley National Laboratory (subject to receipt of any required approvals from the U.S. Dept. of
# Energy). All rights reserved.
#
# Redistribution and use in source and binary forms, with or without modification, are permitted
# provided that the following conditions are met:
#
# (1) Redistributions of source code must retain the above copyright notice, this list of conditions
# and the following disclaimer.
#
# (2) Redistributions in binary form must reproduce the above copyright notice, this list of
# conditions and the following disclaimer in the documentation and/or other materials provided with
# the distribution.
#
# (3) Neither the name of the University of California, Lawrence Berkeley National Laboratory, U.S.
# Dept. of Energy nor the names of its contributors may be used to endorse or promote products
# derived from this software without specific prior written permission.
#
# THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR
# IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND
# FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR
# CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
# DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE,
# DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER
# IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT
# OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
#
# You are under no obligation whatsoever to provide any bug fixes, patches, or upgrades to the
# features, functionality or performance of the source code ("Enhancements") to anyone; however, if
# you choose to make your Enhancements available either publicly, or directly to Lawrence Berkeley
# National Laboratory or its contributors, without imposing a separate written license agreement for
# such Enhancements, then you hereby grant the following license: a non-exclusive, royalty-free
# perpetual license to install, use, modify, prepare derivative works, incorporate into other
# computer software, distribute, and sublicense such enhancements or derivative works thereof, in
# binary and source code form.

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

# The last four are those of the ground state of the element.
PROPERTIES: Final = (
    "number",
    "Mendeleev number",
    "atomic weight",
    "melting point (K)",
    "column",
    "row",
    "covalent radius (pm)",
    "electronegativity",
    "s valence electrons",
    "p valence electrons",
    "d valence electrons",
    "f valence electrons",
    "valence electrons",
    "unfilled s states",
    "unfilled p states",
    "unfilled d states",
    "unfilled f states",
    "unfilled states",
    "volume per atom (A^3)",
    "gap (eV)",
    "magnetic moment",
    "space group",
)

_TABLE: Final = """
H 92 1.00794 14.01 1 1 31 2.2 1 0 0 0 1 1 0 0 0 1 6.615 7.853 0 194
He 98 4.002602 nan 18 1 28 nan 2 0 0 0 2 0 0 0 0 0 12.305 18.098 0 225
Li 1 6.941 453.69 1 2 128 0.98 1 0 0 0 1 1 0 0 0 1 16.59333333 0 0 229
Be 67 9.012182 1560 2 2 96 1.57 2 0 0 0 2 0 0 0 0 0 7.89 0 0 194
B 72 10.811 2348 13 2 84 2.04 2 1 0 0 3 0 5 0 0 5 7.1725 1.524 0 166
C 77 12.0107 3823 14 2 76 2.55 2 2 0 0 4 0 4 0 0 4 5.64 4.496 0 194
N 82 14.0067 63.05 15 2 71 3.04 2 3 0 0 5 0 3 0 0 3 14.76875 6.437 0 194
O 87 15.9994 54.8 16 2 66 3.44 2 4 0 0 6 0 2 0 0 2 9.105 0 0 12
F 93 18.9984032 53.5 17 2 57 3.98 2 5 0 0 7 0 1 0 0 1 9.7075 1.97 0 15
Ne 99 20.1791 24.56 18 2 58 nan 2 6 0 0 8 0 0 0 0 0 12.64 13.088 0 225
Na 2 22.98976928 370.87 1 3 166 0.93 1 0 0 0 1 1 0 0 0 1 29.24333333 0 0 229
Mg 68 24.305 923 2 3 141 1.31 2 0 0 0 2 0 0 0 0 0 22.89 0 0 194
Al 73 26.9815386 933.47 13 3 121 1.61 2 1 0 0 3 0 5 0 0 5 16.48 0 0 225
Si 78 28.0855 1687 14 3 111 1.9 2 2 0 0 4 0 4 0 0 4 20.44 0.773 0 227
P 83 30.973762 317.3 15 3 107 2.19 2 3 0 0 5 0 3 0 0 3 22.5702381 1.625 0 2
S 88 32.065 388.36 16 3 105 2.58 2 4 0 0 6 0 2 0 0 2 25.786875 2.202 0 70
Cl 94 35.453 171.6 17 3 102 3.16 2 5 0 0 7 0 1 0 0 1 24.4975 2.493 0 64
Ar 100 39.948 83.8 18 3 106 nan 2 6 0 0 8 0 0 0 0 0 28.54 9.26 0 225
K 3 39.0983 336.53 1 4 203 0.82 1 0 0 0 1 1 0 0 0 1 73.10666667 0 0 229
Ca 7 40.078 1115 2 4 176 1 2 0 0 0 2 0 0 0 0 0 37.77 0 0 225
Sc 11 44.955912 1814 3 4 170 1.36 2 0 1 0 3 0 0 9 0 9 22.235 0 6.35e-06 194
Ti 43 47.867 1941 4 4 160 1.54 2 0 2 0 4 0 0 8 0 8 16.69 0 2.253333333e-05 194
V 46 50.9415 2183 5 4 153 1.63 2 0 3 0 5 0 0 7 0 7 13.01 0 0 229
Cr 49 51.9961 2180 6 4 139 1.66 1 0 5 0 6 1 0 5 0 6 11.19 0 0 229
Mn 52 54.938045 1519 7 4 139 1.55 2 0 5 0 7 0 0 5 0 5 10.48758621 0 0.0003101206897 217
Fe 55 55.845 1811 8 4 132 1.83 2 0 6 0 8 0 0 4 0 4 10.73 0 2.1106628 229
Co 58 58.933195 1768 9 4 126 1.88 2 0 7 0 9 0 0 3 0 3 10.245 0 1.5484712 194
Ni 61 58.6934 1728 10 4 124 1.91 2 0 8 0 10 0 0 2 0 2 10.32 0 0.5953947 225
Cu 64 63.546 1357.77 11 4 132 1.9 1 0 10 0 11 1 0 0 0 1 11.07 0 0 225
Zn 69 65.38 692.68 12 4 122 1.65 2 0 10 0 12 0 0 0 0 0 13.96 0 0 194
Ga 74 69.723 302.91 13 4 122 1.81 2 1 10 0 13 0 5 0 0 5 18.8575 0 0 64
Ge 79 72.64 1211.4 14 4 120 2.01 2 2 10 0 14 0 4 0 0 4 23.005 0.383 0 225
As 84 74.9216 1090 15 4 119 2.18 2 3 10 0 15 0 3 0 0 3 22.175 0 0 166
Se 89 78.96 494 16 4 120 2.55 2 4 10 0 16 0 2 0 0 2 25.92 0.799 0 14
Br 95 79.904 265.8 17 4 120 2.96 2 5 10 0 17 0 1 0 0 1 29.48 1.457 0 64
Kr 101 83.798 115.79 18 4 116 3 2 6 10 0 18 0 0 0 0 0 36.06 7.535 0 225
Rb 4 85.4678 312.46 1 5 220 0.82 1 0 0 0 1 1 0 0 0 1 90.7225 0 0 229
Sr 8 87.62 1050 2 5 195 0.95 2 0 0 0 2 0 0 0 0 0 54.23 0 0 225
Y 12 88.90585 1799 3 5 190 1.22 2 0 1 0 3 0 0 9 0 9 32.365 0 0 194
Zr 44 91.224 2128 4 5 175 1.33 2 0 2 0 4 0 0 8 0 8 23.195 0 0 194
Nb 47 92.90638 2750 5 5 164 1.6 1 0 4 0 5 1 0 6 0 7 18.18 0 0 229
Mo 50 95.96 2896 6 5 154 2.16 1 0 5 0 6 1 0 5 0 6 15.69 0 0 229
Tc 53 98 2430 7 5 147 1.9 2 0 5 0 7 0 0 5 0 5 14.285 0 0 194
Ru 56 101.07 2607 8 5 146 2.2 1 0 7 0 8 1 0 3 0 4 13.51 0 0 194
Rh 59 102.9055 2237 9 5 142 2.28 1 0 8 0 9 1 0 2 0 3 13.64 0 0 225
Pd 62 106.42 1828.05 10 5 139 2.2 0 0 10 0 10 0 0 0 0 0 14.41 0 0 225
Ag 65 107.8682 1234.93 11 5 145 1.93 1 0 10 0 11 1 0 0 0 1 16.33 0 0 225
Cd 70 112.411 594.22 12 5 144 1.69 2 0 10 0 12 0 0 0 0 0 19.495 0 0 194
In 75 114.818 429.75 13 5 142 1.78 2 1 10 0 13 0 5 0 0 5 24.26 0 0 139
Sn 80 118.71 505.08 14 5 139 1.96 2 2 10 0 14 0 4 0 0 4 33.285 0 0 141
Sb 85 121.76 903.78 15 5 139 2.05 2 3 10 0 15 0 3 0 0 3 31.56 0 0 166
Te 90 127.6 722.66 16 5 138 2.1 2 4 10 0 16 0 2 0 0 2 34.76333333 0.464 0 152
I 96 126.90447 386.85 17 5 139 2.66 2 5 10 0 17 0 1 0 0 1 43.015 1.062 0 64
Xe 102 131.293 161.3 18 5 140 2.6 2 6 10 0 18 0 0 0 0 0 53.65 6.456 0 225
Cs 5 132.9054519 301.59 1 6 244 0.79 1 0 0 0 1 1 0 0 0 1 115.765 0 0 229
Ba 9 137.327 1000 2 6 215 0.89 2 0 0 0 2 0 0 0 0 0 63.59 0 0 229
La 13 138.90547 1193 3 6 207 1.1 2 0 1 0 3 0 0 9 0 9 36.8975 0 0 194
Ce 15 140.116 1071 3 6 204 1.12 2 0 1 1 4 0 0 9 13 22 37.24 0 0 194
Pr 17 140.90765 1204 3 6 203 1.13 2 0 0 3 5 0 0 0 11 11 35.675 0 0 194
Nd 19 144.242 1294 3 6 201 1.14 2 0 0 4 6 0 0 0 10 10 34.81 0 0 194
Pm 21 145 1373 3 6 199 1.155 2 0 0 5 7 0 0 0 9 9 33.8425 0 0 194
Sm 23 150.36 1345 3 6 198 1.17 2 0 0 6 8 0 0 0 8 8 33.23 0 0 166
Eu 25 151.964 1095 3 6 198 1.185 2 0 0 7 9 0 0 0 7 7 36.46 0 0 229
Gd 27 157.25 1586 3 6 196 1.2 2 0 1 7 10 0 0 9 7 16 32.05 0 0 194
Tb 29 158.92535 1629 3 6 194 1.21 2 0 0 9 11 0 0 0 5 5 31.73666667 0 0 194
Dy 31 162.5 1685 3 6 192 1.22 2 0 0 10 12 0 0 0 4 4 31.24 0 0 194
Ho 33 164.93032 1747 3 6 192 1.23 2 0 0 11 13 0 0 0 3 3 30.73333333 0 0 194
Er 35 167.259 1770 3 6 189 1.24 2 0 0 12 14 0 0 0 2 2 30.585 0 0 194
Tm 37 168.93421 1818 3 6 190 1.25 2 0 0 13 15 0 0 0 1 1 29.78 0 0 194
Yb 39 173.054 1092 3 6 187 1.26 2 0 0 14 16 0 0 0 0 0 34.12 0 0 225
Lu 41 174.9668 1936 3 6 187 1.27 2 0 1 14 17 0 0 9 0 9 28.865 0 0.0022471 194
Hf 45 178.49 2506 4 6 175 1.3 2 0 2 14 18 0 0 8 0 8 22.2 0 0 194
Ta 48 180.94788 3290 5 6 170 1.5 2 0 3 14 19 0 0 7 0 7 18.12 0 0 229
W 51 183.84 3695 6 6 162 2.36 2 0 4 14 20 0 0 6 0 6 16.05 0 0 229
Re 54 186.207 3459 7 6 151 1.9 2 0 5 14 21 0 0 5 0 5 14.655 0 0 194
Os 57 190.23 3306 8 6 144 2.2 2 0 6 14 22 0 0 4 0 4 14.09 0 0 194
Ir 60 192.217 2739 9 6 141 2.2 2 0 7 14 23 0 0 3 0 3 14.21 0 0 225
Pt 63 195.084 2041.4 10 6 136 2.28 1 0 9 14 24 1 0 1 0 2 15.02 0 0 225
Au 66 196.966569 1337.33 11 6 136 2.54 1 0 10 14 25 1 0 0 0 1 16.7 0 0 225
Hg 71 200.59 234.32 12 6 132 2 2 0 10 14 26 0 0 0 0 0 25.23758621 0 0 166
Tl 76 204.3833 577 13 6 145 1.62 2 1 10 14 27 0 5 0 0 5 26.91 0 0 194
Pb 81 207.2 600.61 14 6 146 2.33 2 2 10 14 28 0 4 0 0 4 28.11 0 0 225
Bi 86 208.9804 544.4 15 6 148 2.02 2 3 10 14 29 0 3 0 0 3 32.95 0 0 12
Po 91 209 527 16 6 140 2 2 4 10 14 30 0 2 0 0 2 38.73125 0 0 221
At 97 210 575 17 6 150 2.2 2 5 10 14 31 0 1 0 0 1 38.73125 0 0 nan
Rn 103 222 202 18 6 150 nan 2 6 10 14 32 0 0 0 0 0 38.73125 0 0 nan
Fr 6 223 nan 1 7 260 0.7 1 0 0 0 1 1 0 0 0 1 38.73125 0 0 nan
Ra 10 226 973 2 7 221 0.9 2 0 0 0 2 0 0 0 0 0 38.73125 0 0 229
Ac 14 227 1323 3 7 215 1.1 2 0 1 0 3 0 0 9 0 9 44.5125 0 0 225
Th 16 232.03806 2023 3 7 206 1.3 2 0 2 0 4 0 0 8 0 8 32.37 0 0 225
Pa 18 231.03586 1845 3 7 200 1.5 2 0 1 2 5 0 0 9 12 21 25.18 0 0 139
U 20 238.02891 1408 3 7 196 1.38 2 0 1 3 6 0 0 9 11 20 20.025 0 0 63
Np 22 237 917 3 7 190 1.36 2 0 1 4 7 0 0 9 10 19 18.45375 0 0 62
Pu 24 244 913 3 7 187 1.28 2 0 0 6 8 0 0 0 8 8 18.08 0 0.3180036375 11
Am 26 243 1449 3 7 180 1.3 2 0 0 7 9 0 0 0 7 7 18.08 0 0.3180036375 194
Cm 28 247 1618 3 7 169 1.3 2 0 1 7 10 0 0 9 7 16 18.08 0 0.3180036375 194
"""
# Symbols in the order of atomic number.
TABLE_ELEMENTS: Final = tuple(line.split()[0] for line in _TABLE.strip().split("\n"))


@cache
def element_properties() -> NDArray[np.float64]:
    """Return the properties (element, property), hydrogen first, in the order of PROPERTIES."""
    rows = [line.split()[1:] for line in _TABLE.strip().split("\n")]
    values = np.array([[z, *map(float, row)] for z, row in enumerate(rows, start=1)])
    return _read_only(np.where(np.isnan(values), np.nanmean(values, axis=0), values))


@cache
def scaled_properties() -> NDArray[np.float64]:
    """Return the properties (element, property), each with mean 0 and standard deviation 1."""
    values = element_properties()
    return _read_only((values - values.mean(axis=0)) / values.std(axis=0))


def _read_only(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values.flags.writeable = False
    return values
